"""Rejections of what lies on a real S3 server, where the rig's is built (`make e2e` builds it)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster import build, modules
from e2e.s3 import S3, serving
from tests.serving.batch.conftest import Rig


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    if not build.program(modules.VERSITYGW, "versitygw").exists():
        pytest.skip("versitygw is not built")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with serving(tmp_path_factory.mktemp("s3"), address) as made:
        for name, content in {"data/in/a.txt": "x\n", "data/empty.txt": "", "full/thesis.tex": "x"}.items():
            path = made.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        yield made


@pytest.mark.parametrize(
    ("given", "to", "key", "code", "words"),
    [
        ("data/none.txt", "data/out", None, "InputMissing", "s3://data/none.txt was not found"),
        ("data/in/*.csv", "data/out", None, "InputMissing", "no file matches s3://data/in/*.csv"),
        ("nothing/a.txt", "data/out", None, "InputMissing", "the bucket s3://nothing does not exist"),
        ("nothing/*.txt", "data/out", None, "InputMissing", "the bucket s3://nothing does not exist"),
        ("data/empty.txt", "data/out", None, "NoRows", "no rows"),
        ("data/in/a.txt", "full", None, "OutputNotEmpty", "the output folder s3://full has 1 files"),
        ("data/in/a.txt", "nothing/out", None, "InputMissing", "the bucket s3://nothing does not exist"),
        ("data/in/a.txt", "data/out", "wrong", "AccessDenied", "access to s3://data/in/a.txt was denied"),
        ("data/in/*.txt", "data/out", "wrong", "AccessDenied", "access to s3://data/in/*.txt was denied"),
    ],
)
def test_rejected(
    rig: Rig,
    server: S3,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    to: str,
    key: str | None,
    code: str,
    words: str,
) -> None:
    from rayllm_ctl.serving.buckets import filesystems

    filesystems.s3.cache_clear()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key or server.secret_key)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    sections: dict[str, Any] = {
        "input": {"paths": [f"s3://{given}"]},
        "output": {"path": f"s3://{to}"},
        "storage": {"endpoint": server.endpoint, "region": "us-east-1"},
    }
    failed = rig.failure(rig.settings("text", "jsonl", **sections))
    assert failed["code"] == code, failed
    assert words in failed["message"]
    assert failed["hint"]


def test_a_busy_endpoint_has_time_to_answer() -> None:
    from rayllm_ctl.serving.buckets import filesystems

    made = filesystems.s3("data", filesystems.Access("http://127.0.0.1:1", "eu-central-1"))
    _, (given,) = made.__reduce__()
    assert (given["connect_timeout"], given["request_timeout"]) == (5.0, 30.0)


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_bucket_is_read_without_credentials_where_its_address_says_so(scheme: str) -> None:
    from rayllm_ctl.serving.batch import settings, storage

    options = settings.Storage(region="us-east-1")
    for address, anonymous in ((f"{scheme}://anonymous@data/in/a.txt", True), (f"{scheme}://data/in/a.txt", False)):
        made, inner = storage.filesystem(address, options)
        _, (given,) = made.__reduce__()
        assert (inner, given["anonymous"]) == ("data/in/a.txt", anonymous)


def test_rows_of_a_public_bucket_do_not_show_how_it_is_read(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import fs

    from rayllm_ctl.serving.buckets import filesystems

    rig.write("public/a.txt", "x\n")
    rig.write("public/b.txt", "y\n")
    seen = []

    def local(bucket: str, access: Any) -> Any:
        seen.append((bucket, access.anonymous))
        return fs.SubTreeFileSystem(str(rig.root / "in"), fs.LocalFileSystem())

    monkeypatch.setattr(filesystems, "s3", local)
    given = {"paths": ["s3://anonymous@public/*.txt"]}
    assert rig.run(rig.settings("text", "jsonl", input=given))[0] == 0
    assert [(row["row_id"], row["text"]) for row in rig.rows()] == [("a.txt:1", "x"), ("b.txt:1", "y")]
    assert set(seen) == {("public", True)}
