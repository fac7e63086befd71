"""Downloads from a hub into a folder."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import signal
import time
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import snapshot_download

from rayllm_ctl.serving.storage import events, transfer
from rayllm_ctl.serving.storage.download import download
from rayllm_ctl.serving.storage.events import say_failed
from rayllm_ctl.serving.storage.failures import StorageError
from rayllm_ctl.serving.storage.settings import load_settings
from rayllm_ctl.serving.storage.targets.output import FileOutput
from tests.catalog.hubserver import COMMIT, flip
from tests.serving.storage.conftest import MODEL, SHARDS, Rig, content, model, told, weights

Capture = pytest.CaptureFixture[str]


def test_a_hub_client_downloads_the_same_from_the_same_server(rig: Rig, capsys: Capture) -> None:
    """The server of these tests answers as the hub does, not as the code under test likes it."""
    rig.download(capsys)
    other = snapshot_download(MODEL, endpoint=rig.hub.address, local_dir=rig.root / "other", etag_timeout=60)
    theirs = content(Path(other))
    assert {name: theirs[name] for name in model()} == content(rig.target)


def test_the_folder_has_the_files_that_engines_need(rig: Rig, capsys: Capture) -> None:
    done = rig.download(capsys)
    assert content(rig.target) == model()
    marker = rig.marker()
    assert (marker["version"], marker["source"], marker["revision"]) == (1, f"hf://{MODEL}", "main")
    assert (marker["commit"], marker["bytes"]) == (COMMIT, sum(map(len, model().values())))
    for name, found in model().items():
        how = "sha256" if name.endswith(".safetensors") else "git-sha1"
        entry = {"bytes": len(found), "sha256": hashlib.sha256(found).hexdigest(), "verified": how}
        assert marker["files"][name] == entry
    assert (done["event"], done["bytes"], done["fetched"]) == ("done", marker["bytes"], marker["bytes"])
    assert not rig.target.with_name("main.partial").exists()


def test_files_that_are_left_out_are_named(rig: Rig, capsys: Capture) -> None:
    rig.download(capsys)
    capsys.readouterr()
    rig.download(capsys, target=str(rig.root / "again"))
    shutil.rmtree(rig.root / "again")
    rig.settings(target=str(rig.root / "again"))
    transfer_lines = _stderr_of(rig, capsys)
    for name in ("pytorch_model.bin", "original/consolidated.safetensors", "onnx/model.onnx"):
        assert name in transfer_lines


def _stderr_of(rig: Rig, capsys: Capture) -> str:
    from rayllm_ctl.serving.storage.download import download
    from rayllm_ctl.serving.storage.settings import load_settings

    download(load_settings(str(rig.root / "settings.json")))
    return capsys.readouterr().err


def test_a_complete_folder_is_not_downloaded_again(rig: Rig, capsys: Capture) -> None:
    rig.download(capsys)
    rig.hub.seen.clear()
    done = rig.download(capsys)
    assert (done["event"], done["fetched"], rig.hub.seen) == ("done", 0, [])


def test_a_list_without_sizes_is_completed_by_requests_for_each_file(rig: Rig, capsys: Capture) -> None:
    rig.hub.describes = False
    rig.download(capsys)
    assert content(rig.target) == model()
    by_size = [name for name, entry in rig.marker()["files"].items() if entry["verified"] == "size"]
    assert by_size == ["empty.txt"]


def test_a_flipped_byte_is_found_by_verify_and_that_file_alone_is_fetched(rig: Rig, capsys: Capture) -> None:
    rig.download(capsys)
    path = rig.target / SHARDS[1]
    path.write_bytes(flip(path.read_bytes()))
    assert rig.download(capsys)["fetched"] == 0  # by its sizes it is complete
    done = rig.download(capsys, verify=True)
    assert (content(rig.target), done["fetched"]) == (model(), len(model()[SHARDS[1]]))


def test_a_missing_file_is_fetched_again(rig: Rig, capsys: Capture) -> None:
    rig.download(capsys)
    (rig.target / "config.json").unlink()
    done = rig.download(capsys)
    assert (content(rig.target), done["fetched"]) == (model(), len(model()["config.json"]))


def test_a_wrong_file_is_fetched_once_more(rig: Rig, capsys: Capture) -> None:
    rig.hub.flipped["config.json"] = 1
    rig.download(capsys)
    assert content(rig.target) == model()


@pytest.mark.parametrize("name", ["config.json", SHARDS[0]])
def test_a_file_that_stays_wrong_is_named(rig: Rig, name: str) -> None:
    rig.hub.flipped[name] = 1000
    error = rig.failure()
    assert (error.code, error.exit_code) == ("DownloadCorrupt", 10)
    assert error.message.startswith(f"{name} is corrupted")
    assert not (rig.target / ".rayllm-complete").exists()


def test_a_pointer_of_git_lfs_is_not_taken_for_weights(rig: Rig) -> None:
    rig.hub.files[MODEL][SHARDS[0]] = b"version https://git-lfs.github.com/spec/v1\n" * 3
    error = rig.failure()
    assert (error.code, SHARDS[0] in error.message) == ("DownloadCorrupt", True)
    assert "not a safetensors file" in error.message


def test_a_cut_off_shard_is_not_taken_for_weights(rig: Rig) -> None:
    rig.hub.files[MODEL][SHARDS[0]] = weights(5000, 1)[:-1]
    assert "its safetensors header describes" in rig.failure().message


@pytest.mark.parametrize(
    ("change", "code", "words", "exit_code"),
    [
        ({"token": "hf_right"}, "DownloadUnauthorized", "is gated or private", 10),
        ({"files": {}}, "DownloadNotFound", f"has no model {MODEL}", 10),
        ({"files": {MODEL: {"config.json": b"{}"}}}, "DownloadNotFound", "no weights", 10),
        ({"files": {MODEL: {"../x": b"{}"}}}, "DownloadFailed", "invalid name", 1),
        ({"faults": [(429, "3600")]}, "DownloadThrottled", "HTTP 429", 1),
    ],
)
def test_failures_have_codes(rig: Rig, change: dict[str, Any], code: str, words: str, exit_code: int) -> None:
    for name, value in change.items():
        setattr(rig.hub, name, value)
    error = rig.failure()
    assert (error.code, error.exit_code) == (code, exit_code)
    assert words in error.message
    assert error.hint


def test_an_unknown_revision_is_named(rig: Rig) -> None:
    error = rig.failure(revision="v9")
    assert (error.code, '"v9"' in error.message) == ("DownloadNotFound", True)


def test_the_token_goes_to_the_hub_alone(rig: Rig, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.hub.token = "hf_right"
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    rig.download(capsys)
    sent = {path.startswith("/cdn/"): headers.get("authorization") for path, headers in rig.hub.seen}
    assert sent == {True: None, False: "Bearer hf_right"}


def test_failures_that_pass_are_waited_out(rig: Rig, capsys: Capture) -> None:
    rig.hub.faults = [(503, ""), (429, "0"), (500, ""), (502, "0"), (504, "")]
    download(load_settings(rig.settings()))
    assert (content(rig.target), rig.hub.faults) == (model(), [])
    said = [line for line in told(capsys.readouterr().out) if line["event"] == "retrying"]
    assert {line["code"] for line in said} == {"DownloadUnreachable", "DownloadThrottled"}
    assert [line["message"] for line in said if line["code"] == "DownloadThrottled"] == [
        f"{rig.hub.address.removeprefix('http://')} rejects further requests for now (HTTP 429)"
    ]


def test_a_reason_to_repeat_requests_is_told_now_and_then(capsys: Capture) -> None:
    now = [0.0]
    trouble = events.Trouble(lambda: now[0])
    for now[0] in (0.0, 1.0, 29.0, 31.0, 40.0):
        trouble.say(StorageError("DownloadThrottled", "429", "later"), 8)
    trouble.say(StorageError("DownloadThrottled", "another", "later"), 8)
    assert [line["message"] for line in told(capsys.readouterr().out)] == ["429", "429", "another"]


def test_patience_has_an_end(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "PATIENCE_SECONDS", 0.05)
    rig.hub.faults = [(503, "")] * 1000
    assert rig.failure().code == "DownloadUnreachable"
    rig.hub.faults = [(429, "")] * 1000
    assert rig.failure().code == "DownloadThrottled"


def test_a_host_that_does_not_answer_is_unreachable(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    error = rig.failure()
    assert (error.code, "127.0.0.1:1 cannot be reached" in error.message) == ("DownloadUnreachable", True)


def test_too_little_space_is_found_before_anything_is_fetched(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**6, 10**6, 1000))
    error = rig.failure()
    assert (error.code, error.exit_code) == ("DownloadNoSpace", 10)
    assert "1000 are free" in error.message
    assert rig.hub.sent == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_volume_is_told(rig: Rig, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(FileOutput, "write", fail)
    assert rig.failure().code == "DownloadNoSpace"


def test_another_revision_replaces_the_files(rig: Rig, capsys: Capture) -> None:
    rig.download(capsys)
    (rig.target / "notes.txt").write_text("of the user")
    files = rig.hub.files[MODEL]
    files[SHARDS[0]] = weights(700_001, 3)
    del files["tokenizer.json"]
    done = rig.download(capsys, revision="v1")
    expected = {name: files[name] for name in model() if name in files}
    assert content(rig.target) == {**expected, "notes.txt": b"of the user"}
    assert (rig.marker()["revision"], done["fetched"]) == ("v1", len(files[SHARDS[0]]))


def test_files_without_a_marker_are_used_if_they_are_right(rig: Rig, capsys: Capture) -> None:
    rig.target.mkdir(parents=True)
    for name in SHARDS:
        (rig.target / name).write_bytes(model()[name])
    (rig.target / SHARDS[1]).write_bytes(flip(model()[SHARDS[1]]))
    done = rig.download(capsys)
    assert content(rig.target) == model()
    assert done["fetched"] == sum(len(found) for name, found in model().items() if name != SHARDS[0])


def test_a_mount_point_is_filled_from_inside(rig: Rig, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.target.mkdir(parents=True)
    (rig.target / "lost+found").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == rig.target)
    rig.download(capsys)
    found = content(rig.target)
    assert {name: found[name] for name in model()} == model()
    assert set(found) - set(model()) == {".rayllm-partial.lock"}
    assert [path.name for path in rig.target.parent.iterdir()] == ["main"]


def test_without_locks_a_download_has_a_folder_of_its_own(
    rig: Rig, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "lockf", fail)
    seen: set[str] = set()
    write = FileOutput.write

    def watched(out: Any, chunk: Any) -> None:
        seen.update(path.name for path in rig.target.parent.iterdir())
        write(out, chunk)

    monkeypatch.setattr(FileOutput, "write", watched)
    rig.download(capsys)
    assert content(rig.target) == model()
    assert any(name.startswith("main.partial-") for name in seen)
    assert "main.partial" not in seen


def test_the_second_of_two_jobs_waits_and_fetches_nothing(rig: Rig) -> None:
    rig.hub.pace, rig.hub.piece = 0.01, 1 << 14
    jobs = [rig.start(), rig.start()]
    ends = [job.communicate() for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], ends
    assert sorted(told(out)[-1]["fetched"] for out, _ in ends) == [0, rig.marker()["bytes"]]
    assert content(rig.target) == model()


def test_sigterm_ends_at_once_and_the_next_job_continues(rig: Rig) -> None:
    rig.hub.pace, rig.hub.piece = 0.02, 1 << 13
    job = rig.start()
    while rig.hub.sent < 400_000:
        assert job.poll() is None
        time.sleep(0.001)
    job.send_signal(signal.SIGTERM)
    out, _ = job.communicate()
    assert job.returncode == 143
    assert told(out)[-1]["event"] != "done"
    rig.hub.pace = 0.0
    job = rig.start()
    done = told(job.communicate()[0])[-1]
    assert (job.returncode, content(rig.target)) == (0, model())
    assert done["fetched"] < done["bytes"]


def test_a_failure_is_the_message_of_the_container(rig: Rig, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "termination-log").touch()
    rig.hub.token = "hf_right"
    say_failed(rig.failure())
    assert told(capsys.readouterr().out)[-1] == json.loads((tmp_path / "termination-log").read_text())
