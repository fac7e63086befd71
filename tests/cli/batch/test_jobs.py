"""Commands of `batch` for jobs that were submitted, against a fake API server."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.kinds.rayjob import JOB_RIGHTS, JobActivity
from rayllm_ctl.model.kube.api_kinds import kind
from tests.cli.conftest import Run
from tests.cli.test_commands_rights import grants
from tests.cluster import fakejobs
from tests.cluster.fakeapi import FakeAPI
from tests.cluster.fakejobs import NAME, REJECTED, RESULT
from tests.conftest import Golden


@pytest.fixture
def running(api: FakeAPI) -> None:
    fakejobs.running(api)


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list", ("list",)),
        ("list-all", ("list", "-A")),
        ("list-name", ("list", "-o", "name")),
        ("status", ("status", NAME)),
        ("status-json", ("status", NAME, "-o", "json")),
        ("status-unknown", ("status", "sum")),
        ("watch-timeout", ("watch", NAME, "--timeout", "1ms")),
        ("logs", ("logs", NAME)),
        ("resume-running", ("resume", NAME)),
        ("cancel-no-wait", ("cancel", NAME, "--no-wait")),
        ("cancel-unknown", ("cancel", "sum")),
    ],
)
def test_of_a_job_that_runs(run: Run, golden: Golden, name: str, arguments: tuple[str, ...]) -> None:
    golden.check(f"batch/{name}.txt", str(run("batch", *arguments)))


def test_where_there_is_none(run: Run, golden: Golden) -> None:
    golden.check("batch/list-of-nothing.txt", str(run("batch", "list")))


TOO_MANY = {**RESULT, "answered": 1900, "errors": 100}
ENDS: dict[str, tuple[Callable[[FakeAPI], None], int]] = {
    "answered": (lambda api: fakejobs.ended(api, RESULT, succeeded=True), 0),
    "too-many-errors": (lambda api: fakejobs.ended(api, TOO_MANY, succeeded=False), 1),
    "rejected": (lambda api: fakejobs.ended(api, REJECTED, succeeded=False), 8),
    "failed": (lambda api: fakejobs.ended(api, {"event": "failed", "code": "DiskFull"}, succeeded=False), 7),
}


@pytest.mark.parametrize("name", ENDS)
def test_how_it_ended_is_an_exit_code(run: Run, api: FakeAPI, golden: Golden, name: str) -> None:
    make, code = ENDS[name]
    make(api)
    watched = run("batch", "watch", NAME)
    assert watched.code == code, str(watched)
    golden.check(f"batch/watch-{name}.txt", str(watched))
    shown = run("batch", "status", NAME)
    assert shown.code == min(code, 1), str(shown)
    golden.check(f"batch/status-{name}.txt", str(shown))


def test_watch_writes_a_line_of_json_for_each_change(run: Run, api: FakeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayllm_ctl.workflows.observe.wait.LOOK_EVERY", 0.05)
    monkeypatch.setattr("rayllm_ctl.workflows.observe.wait.SETTLE", 0.0)
    fakejobs.running(api)
    reads = 0

    def log(_request: object) -> tuple[int, bytes] | None:
        nonlocal reads
        reads += 1
        if reads == 3:
            fakejobs.ended(api, RESULT, succeeded=True)
            api.update("kuberay", "RayJob", NAME, status=api.stored("RayJob", NAME)["status"])
        return None

    api.answer("GET", f"/pods/{NAME}-xyzzz/log$", log)
    result = run("batch", "watch", NAME, "-o", "json", "--timeout", "20s")
    assert result.code == 0, str(result)
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert [line["state"] for line in lines] == ["Running", "Succeeded"]
    assert lines[0]["progress"]["done"] == 500
    assert lines[-1]["outcome"] == "Answered"


def test_watch_ends_when_the_job_can_never_run(run: Run, api: FakeAPI) -> None:
    fakejobs.job(api, "Initializing", "")
    message = "The RayJob spec is invalid: backoffLimit must be a positive integer"
    fakejobs.job(api, "ValidationFailed", "", message=message)
    result = run("batch", "watch", NAME)
    assert result.code == 7
    assert "backoffLimit must be a positive integer" in result.err


def test_watch_of_a_job_that_is_not_there_is_a_failure_and_not_a_row_error(run: Run, api: FakeAPI) -> None:
    api.put(kind="RayJob", metadata={"name": "other"}, spec={})
    result = run("batch", "watch", "other")
    assert result.code == 7
    assert "there is no batch job other in namespace llm" in result.err


def test_services_do_not_list_jobs(run: Run, api: FakeAPI) -> None:
    fakejobs.running(api)
    assert run("status").out == "no services\n"
    assert run("status", NAME).code == 1


def test_cancel_takes_the_job_with_its_settings_and_nothing_else(run: Run, api: FakeAPI, golden: Golden) -> None:
    fakejobs.ended(api, RESULT, succeeded=True)
    api.put(kind="ConfigMap", metadata={"name": "mine", "labels": fakejobs.LABELS})
    api.put(kind="RayJob", metadata={"name": "other", "labels": {"rayllm.io/batch": "other"}}, spec={})
    api.remove("Pod", f"{NAME}-xyzzz")
    golden.check("batch/cancel.txt", str(run("batch", "cancel", NAME)))
    assert (api.names("RayJob"), api.names("ConfigMap")) == (["other"], ["mine"])
    assert run("batch", "cancel", NAME).code == 1
    assert run("batch", "cancel", NAME, "--ignore-not-found").code == 0


def test_cancel_waits_for_the_pods_and_says_what_is_left(run: Run, api: FakeAPI) -> None:
    fakejobs.running(api)
    result = run("batch", "cancel", NAME, "--timeout", "1ms")
    assert result.code == 3
    assert "waiting for 3 pods of sums to terminate" in result.err
    assert f"Pod {fakejobs.CLUSTER}-head: on node n1" in result.err


def test_resume_replaces_a_job_that_has_ended_by_the_same(run: Run, api: FakeAPI, golden: Golden) -> None:
    fakejobs.ended(api, REJECTED, succeeded=False)
    api.remove("Pod", f"{NAME}-xyzzz")
    before = api.stored("RayJob", NAME)
    golden.check("batch/resume.txt", str(run("batch", "resume", NAME)))
    after = api.stored("RayJob", NAME)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])
    assert "status" not in after
    assert api.names("ConfigMap") == [f"{NAME}-settings-1a2b"]


@pytest.mark.parametrize("said", [RESULT, REJECTED], ids=["answered", "rejected"])
def test_a_job_that_was_called_done_can_be_run_again_before_kuberay_knows_of_its_end(
    run: Run, api: FakeAPI, said: dict[str, Any]
) -> None:
    fakejobs.running(api)
    assert f"{NAME} is still running" in run("batch", "resume", NAME).err
    fakejobs.says(api, said)
    # There is no KubeRay here that deletes the pods with the job, so their end is not waited for to the end.
    resumed = run("batch", "resume", NAME, "--timeout", "1ms")
    assert f"rayjob/{NAME} has ended" in resumed.err
    assert api.names("RayJob") == []


def test_a_job_that_was_called_done_can_be_submitted_again_before_kuberay_knows_of_its_end(
    run: Run, api: FakeAPI
) -> None:
    fakejobs.running(api)
    data = (
        "--input",
        "s3://bucket/in.txt",
        "--output-path",
        "s3://bucket/out",
        "--gpu",
        "L4",
        "--max-model-len",
        "8192",
    )
    again = ("batch", "submit", "--model", "Qwen/Qwen3-8B", "--offline", *data, "--name", NAME, "--dry-run=server")
    assert f"batch job {NAME} is running in namespace llm (Running)" in run(*again).err
    fakejobs.says(api, RESULT)
    assert f"rayjob/{NAME} has ended (Answered) and would be replaced" in run(*again).err


def test_a_list_knows_the_end_of_a_job_with_errors_before_kuberay_does(run: Run, api: FakeAPI) -> None:
    fakejobs.running(api)
    for allowed, state in ((10, "Succeeded"), (2, "Failed")):
        fakejobs.says(api, {**RESULT, "maxErrors": allowed})
        [row] = json.loads(run("batch", "list", "-o", "json").out)["items"]
        assert row["health"]["state"] == state


def test_logs_of_a_job_that_has_not_started(run: Run, api: FakeAPI, golden: Golden) -> None:
    fakejobs.job(api, "Initializing", "")
    golden.check("batch/logs-none.txt", str(run("batch", "logs", NAME)))


@pytest.mark.parametrize("gone", [False, True], ids=["while-the-head-runs", "later"])
def test_output_on_a_volume_is_copied_with_kubectl(run: Run, api: FakeAPI, golden: Golden, gone: bool) -> None:
    fakejobs.job(api, output="/data/answers")
    if not gone:
        fakejobs.pods(api)
    golden.check(f"batch/download-volume{'-later' if gone else ''}.txt", str(run("batch", "download", NAME, "answers")))


def test_reading_the_output_needs_pyarrow(
    run: Run, api: FakeAPI, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakejobs.running(api)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    golden.check("batch/head-without-pyarrow.txt", str(run("batch", "head", NAME)))


@pytest.fixture
def bucket(api: FakeAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands in for s3://bucket/answers."""
    fs = pytest.importorskip("pyarrow.fs")
    fakejobs.running(api)
    folder = tmp_path / "store" / "bucket" / "answers"
    (folder / "_rayllm").mkdir(parents=True)
    store = fs.SubTreeFileSystem(str(tmp_path / "store"), fs.LocalFileSystem())
    monkeypatch.setattr(fs, "S3FileSystem", lambda **_: store)
    return folder


def test_the_first_rows_and_all_parts_of_the_output(run: Run, bucket: Path, tmp_path: Path) -> None:
    (bucket / "part-00000-000001.jsonl").write_text('{"row_id": "c"}')
    (bucket / "part-00000-000000.jsonl").write_text('{"row_id": "a"}\n{"row_id": "b"}\n')
    assert run("batch", "head", NAME, "--rows", "3").out == '{"row_id": "a"}\n{"row_id": "b"}\n{"row_id": "c"}\n'
    assert run("batch", "head", NAME, "--rows", "1").out == '{"row_id": "a"}\n'
    here = tmp_path / "here"
    first = run("batch", "download", NAME, str(here))
    assert first.err == "2 parts copied from s3://bucket/answers\n", str(first)
    assert (here / "part-00000-000000.jsonl").read_text() == '{"row_id": "a"}\n{"row_id": "b"}\n'
    assert run("batch", "download", NAME, str(here)).err == "0 parts copied from s3://bucket/answers\n"


@pytest.mark.parametrize("name", ["part-00000-000001.jsonl", "part-00000-000001.jsonl.unfinished"])
def test_what_is_not_a_file_is_not_replaced(run: Run, bucket: Path, tmp_path: Path, name: str) -> None:
    """A named pipe has no size, so it looks like a part that is to be copied again."""
    for number in range(2):
        (bucket / f"part-00000-00000{number}.jsonl").write_text("{}\n")
    here = tmp_path / "here"
    here.mkdir()
    os.mkfifo(here / name)
    result = run("batch", "download", NAME, str(here))
    assert (result.code, result.out) == (2, "")
    assert f"{here / name}: is a named pipe, not a file that can be written" in result.err
    assert f"hint: rayllm-ctl batch download {NAME} DIR" in result.err
    assert (here / name).is_fifo()
    assert [file.name for file in here.iterdir()] == [name]


def test_a_link_to_a_part_is_followed(run: Run, bucket: Path, tmp_path: Path) -> None:
    (bucket / "part-00000-000000.jsonl").write_text("{}\n")
    here, kept = tmp_path / "here", tmp_path / "kept.jsonl"
    here.mkdir()
    (here / "part-00000-000000.jsonl").symlink_to(kept)
    assert run("batch", "download", NAME, str(here)).code == 0
    assert kept.read_text() == "{}\n"
    assert (here / "part-00000-000000.jsonl").is_symlink()


def test_rows_of_a_parquet_file_are_json(run: Run, bucket: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = [{"id": 1, "raw": b"\x00", "price": float("nan"), "error": None}, {"id": 2}]
    pq.write_table(pa.Table.from_pylist(rows), bucket / "part-00000-000000.parquet")
    found = [json.loads(line) for line in run("batch", "head", NAME).out.splitlines()]
    assert found[0] == {"id": 1, "raw": "AA==", "price": None, "error": None}
    assert found[1]["id"] == 2


def test_an_output_without_rows_is_said(run: Run, bucket: Path) -> None:
    assert not list(bucket.glob("part-*"))
    result = run("batch", "head", NAME)
    assert result.code == 1
    assert "s3://bucket/answers has no rows yet" in result.err


ACTIVITIES: dict[JobActivity, tuple[str, ...]] = {
    "list": ("list",),
    "status": ("status", NAME),
    "follow": ("watch", NAME, "--timeout", "1ms"),
    "logs": ("logs", NAME),
    "cancel": ("cancel", NAME, "--no-wait"),
}


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("activity", ACTIVITIES)
def test_the_needed_rights_are_enough(run: Run, api: FakeAPI, activity: JobActivity) -> None:
    api.granted = grants(*JOB_RIGHTS[activity].needed)
    result = run("batch", *ACTIVITIES[activity])
    assert result.code == {"follow": 3}.get(activity, 0), str(result)
    api.granted = set()
    assert run("batch", *ACTIVITIES[activity]).code == 5


def test_the_needed_rights_are_enough_for_a_job_that_has_ended(run: Run, api: FakeAPI, bucket: Path) -> None:
    (bucket / "part-00000-000000.jsonl").write_text("{}\n")
    api.granted = grants(*JOB_RIGHTS["output"].needed)
    assert run("batch", "head", NAME).out == "{}\n"
    fakejobs.ended(api, RESULT, succeeded=True)
    for kind_name in ("Pod", "RayCluster"):
        for name in api.names(kind_name):
            api.remove(kind_name, name)
    api.granted = grants(*JOB_RIGHTS["resume"].needed)
    result = run("batch", "resume", NAME)
    assert result.code == 0, str(result)
    api.granted = grants(*JOB_RIGHTS["cancel"].needed)
    lacking = run("batch", "resume", NAME)
    assert lacking.code == 5
    assert "patch rayjobs.ray.io" in lacking.err


@pytest.mark.parametrize("rights", JOB_RIGHTS.values(), ids=list(JOB_RIGHTS))
def test_rights_name_known_kinds(rights: Any) -> None:
    assert rights.needed
    assert not set(rights.needed) & set(rights.display)
    assert all(kind(right.kind) for right in (*rights.needed, *rights.display))
