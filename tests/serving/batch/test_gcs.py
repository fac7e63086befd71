"""Jobs from and to a server of Google Cloud Storage, where the rig's is built (`make e2e` builds it)."""

from __future__ import annotations

import io
import json
import re
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from e2e.cluster import build, modules
from e2e.gcs import EMULATOR, GCS, serving, write_key
from tests.serving.batch.conftest import Rig

ROWS = 2500
BUCKET = "data"


@pytest.fixture(scope="module")
def server() -> Iterator[GCS]:
    if not build.program(modules.FAKE_GCS_SERVER, "fake-gcs-server").exists():
        pytest.skip("fake-gcs-server is not built")
    with serving() as made:
        made.make_bucket(BUCKET)
        yield made


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("key") / "key.json"
    write_key(file)
    return file


@pytest.fixture(autouse=True)
def environment(server: GCS, key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a pod with a mounted key file."""
    monkeypatch.setenv(EMULATOR, server.endpoint)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def lines(numbers: range) -> str:
    return "".join(f"{json.dumps({'number': i, 'text': f'word {i}'})}\n" for i in numbers)


def job(rig: Rig, given: str, to: str, form: str = "jsonl", **sections: Any) -> dict[str, Any]:
    places = {"input": {"paths": [f"gs://{given}"]}, "output": {"path": f"gs://{to}"}}
    return rig.settings("jsonl", form, **{**places, **sections})


def parts(server: GCS, folder: str) -> dict[str, bytes]:
    """The files with answers in a folder, by name."""
    names = server.names(BUCKET, f"{folder}/part-")
    return {name.rpartition("/")[2]: server.get(BUCKET, name) for name in names}


def rows_of(name: str, content: bytes) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    if name.endswith(".parquet"):
        return list(pq.read_table(io.BytesIO(content)).to_pylist())
    return [json.loads(line) for line in content.splitlines()]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_every_row_once_from_a_glob_of_files_after_the_engine_was_lost(rig: Rig, server: GCS, form: str) -> None:
    for file, numbers in (("a", range(1500)), ("deep/b", range(1500, ROWS)), ("deep/_hidden", range(9))):
        server.put(BUCKET, f"in/{file}.jsonl", lines(numbers))
    server.put(BUCKET, "in/notes.txt", "not data")
    settings = job(rig, f"{BUCKET}/in/**/*.jsonl", f"{BUCKET}/of/{form}/", form, job={"partRows": 500})
    rig.stop_after = 1200
    assert rig.run(settings)[0] == 3
    assert len(parts(server, f"of/{form}")) == 2
    rig.stop_after = None
    code, events = rig.run(settings)
    assert (code, rig.asked) == (0, [2, 3, 4])
    assert (events[-1]["rows"], events[-1]["resumed"], events[-1]["errors"]) == (ROWS, 1000, 0)
    rows = [row for name, content in parts(server, f"of/{form}").items() for row in rows_of(name, content)]
    assert Counter(row["number"] for row in rows) == Counter(range(ROWS))
    assert {row["row_id"] for row in rows} == {
        *(f"a.jsonl:{i + 1}" for i in range(1500)), *(f"deep/b.jsonl:{i + 1}" for i in range(1000)),
    }  # fmt: skip
    # Another input file of the same name and size is another job, which must not mix its answers with these.
    server.put(BUCKET, "in/a.jsonl", lines(range(1500)))
    assert rig.failure(settings)["code"] == "OutputNotEmpty"


def test_a_public_bucket_is_read_without_a_key(rig: Rig, server: GCS, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    server.put(BUCKET, "public/a.jsonl", lines(range(3)))
    local: dict[str, Any] = {"output": {"path": str(rig.root / "out")}, "storage": {"anonymous": True}}
    assert rig.run(job(rig, f"{BUCKET}/public", "", **local))[0] == 0
    assert [row["number"] for row in rig.rows()] == [0, 1, 2]


def test_an_adapter_is_copied_to_the_engine(server: GCS) -> None:
    from rayllm_ctl.serving.batch.failures import BatchError
    from rayllm_ctl.serving.batch.inference.adapters import Folders
    from rayllm_ctl.serving.batch.settings import Storage

    for name in ("adapter_config.json", "adapter_model.safetensors", "deep/more.json"):
        server.put(BUCKET, f"adapters/legal/{name}", name)
    folders = Folders(f"gs://{BUCKET}/adapters/", Storage())
    copy = Path(folders.of("legal"))
    assert {file.name: file.read_text() for file in copy.iterdir()} == {
        name: name for name in ("adapter_config.json", "adapter_model.safetensors")
    }
    with pytest.raises(BatchError, match=f"no LoRA adapter other in gs://{BUCKET}/adapters"):
        folders.of("other")


@pytest.mark.parametrize(
    ("given", "to", "code", "words"),
    [
        (f"{BUCKET}/none.jsonl", f"{BUCKET}/out", "InputMissing", f"gs://{BUCKET}/none.jsonl was not found"),
        (f"{BUCKET}/few/*.csv", f"{BUCKET}/out", "InputMissing", f"no file matches gs://{BUCKET}/few/*.csv"),
        ("nothing/a.jsonl", f"{BUCKET}/out", "InputMissing", "the bucket gs://nothing does not exist"),
        ("nothing/*.jsonl", f"{BUCKET}/out", "InputMissing", "the bucket gs://nothing does not exist"),
        (f"{BUCKET}/few", f"{BUCKET}/few/out", "InvalidSpec", "is inside the input folder"),
        (f"{BUCKET}/few/a.jsonl", f"{BUCKET}/full", "OutputNotEmpty", f"the output folder gs://{BUCKET}/full has 1"),
        (f"{BUCKET}/few/a.jsonl", "nothing/out", "InputMissing", "the bucket gs://nothing does not exist"),
    ],
)
def test_rejected(rig: Rig, server: GCS, given: str, to: str, code: str, words: str) -> None:
    server.put(BUCKET, "few/a.jsonl", lines(range(2)))
    server.put(BUCKET, "full/thesis.tex", "x")
    failed = rig.failure(job(rig, given, to))
    assert failed["code"] == code, failed
    assert words in failed["message"]
    assert failed["hint"]


def test_no_credentials(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/none/key.json")
    failed = rig.failure(job(rig, f"{BUCKET}/few/a.jsonl", f"{BUCKET}/out"))
    assert failed["code"] == "AccessDenied"
    assert "there are no credentials: " in failed["message"]
    assert "/none/key.json" in failed["message"]
    assert "GOOGLE_APPLICATION_CREDENTIALS" in failed["hint"]


@contextmanager
def gate(server: GCS, denied: str) -> Iterator[str]:
    """The address of a way to lists and metadata, on which paths that match `denied` get 403, as without a role."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if re.search(denied, self.path):
                self.reply(403, json.dumps({"error": {"code": 403, "message": "no such permission"}}).encode())
                return
            try:
                with urllib.request.urlopen(f"{server.endpoint}{self.path}", timeout=10) as answer:
                    self.reply(answer.status, answer.read())
            except urllib.error.HTTPError as error:
                self.reply(error.code, error.read())

        def reply(self, code: int, content: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        thread = Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def test_who_may_read_objects_need_not_know_the_bucket(rig: Rig, server: GCS, monkeypatch: pytest.MonkeyPatch) -> None:
    from rayllm_ctl.serving.batch import settings
    from rayllm_ctl.serving.batch.inputs import sources

    server.put(BUCKET, "glob/a.jsonl", lines(range(3)))
    local: dict[str, Any] = {"output": {"path": str(rig.root / "out")}}
    with gate(server, rf"/b/{BUCKET}(\?|$)") as endpoint:
        monkeypatch.setenv(EMULATOR, endpoint)
        given = settings.parse(job(rig, f"{BUCKET}/glob/*.jsonl", "", **local))
        assert [source.name for source in sources(given)] == ["a.jsonl"]
        failed = rig.failure(job(rig, f"{BUCKET}/glob/b.jsonl", "", **local))
        assert failed["code"] == "InputMissing"


@pytest.mark.parametrize("given", ["a.jsonl", "*.jsonl"])
def test_no_access(rig: Rig, server: GCS, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    server.put(BUCKET, "secret/a.jsonl", lines(range(3)))
    with gate(server, f"/b/{BUCKET}") as endpoint:
        monkeypatch.setenv(EMULATOR, endpoint)
        failed = rig.failure(job(rig, f"{BUCKET}/secret/{given}", f"{BUCKET}/out"))
    assert failed["code"] == "AccessDenied"
    assert f"access to gs://{BUCKET}/secret/{given} was denied" in failed["message"]


def test_the_output_is_read_from_this_machine(rig: Rig, server: GCS, tmp_path: Path) -> None:
    from rayllm_ctl.workflows.batch.output import JobOutput, download_output, first_rows

    server.put(BUCKET, "read/in.jsonl", lines(range(30)))
    to = f"{BUCKET}/read/out"
    assert rig.run(job(rig, f"{BUCKET}/read/in.jsonl", to, job={"partRows": 20}))[0] == 0
    output = JobOutput("job", "default", f"gs://{to}")
    assert [json.loads(row)["number"] for row in first_rows(output, 25)] == list(range(25))
    made = parts(server, "read/out")
    assert (
        list(download_output(output, tmp_path / "copy"))
        == list(made)
        == ["part-00000-000000.jsonl", "part-00000-000001.jsonl"]
    )
    assert {file.name: file.read_bytes() for file in (tmp_path / "copy").iterdir()} == made
