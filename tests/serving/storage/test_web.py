"""Downloads from a folder of a web server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.hubserver import COMMIT, flip
from tests.serving.storage.conftest import MODEL, SHARDS, Rig, content, model

Capture = pytest.CaptureFixture[str]
# empty.txt has no name that a model is known to have.
KNOWN = {name: found for name, found in model().items() if name != "empty.txt"}


class Plain(SimpleHTTPRequestHandler):
    """Python's own server, which has no ranges."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    root = tmp_path / "www"
    for name, found in model().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(found)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Plain, directory=str(root)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield root, f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()


def folder_of(rig: Rig) -> str:
    return f"{rig.hub.address}/{MODEL}/resolve/{COMMIT}"


def test_the_files_of_known_names_and_those_of_the_index(plain: tuple[Path, str], rig: Rig, capsys: Capture) -> None:
    rig.download(capsys, source=plain[1], revision=None)
    assert content(rig.target) == KNOWN


def test_a_marker_lists_the_files_and_their_checksums(plain: tuple[Path, str], rig: Rig, capsys: Capture) -> None:
    root, url = plain
    rig.download(capsys)
    (root / ".rayllm-complete").write_text((rig.target / ".rayllm-complete").read_text())
    rig.download(capsys, source=url, revision=None, target=str(rig.root / "copy"))
    assert content(rig.root / "copy") == model()
    (root / "config.json").write_bytes(flip(model()["config.json"]))
    error = rig.failure(source=url, revision=None, target=str(rig.root / "other"))
    assert (error.code, "config.json" in error.message) == ("DownloadCorrupt", True)


def test_a_shard_of_the_index_that_is_missing_is_named(plain: tuple[Path, str], rig: Rig) -> None:
    (plain[0] / SHARDS[1]).unlink()
    error = rig.failure(source=plain[1], revision=None)
    assert (error.code, SHARDS[1] in error.message) == ("DownloadNotFound", True)


def test_a_signature_is_sent_and_never_shown(plain: tuple[Path, str], rig: Rig, capsys: Capture) -> None:
    root, url = plain
    signed = f"{url}?sig=secret"
    rig.download(capsys, source=signed, revision=None)
    assert "secret" not in json.dumps(rig.marker())
    (root / "config.json").unlink()
    error = rig.failure(source=signed, revision=None, target=str(rig.root / "other"))
    assert "secret" not in error.message + error.hint


def test_a_file_that_changes_is_not_mixed(plain: tuple[Path, str], rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with ETags tells that a file is no longer the one that was listed."""
    from rayllm_ctl.serving.storage.sources import web

    listed = web.WebFolder.list

    def change(source: web.WebFolder) -> Any:
        found = listed(source)
        source._etags["config.json"] = '"another"'
        return found

    rig.hub.files[MODEL] = {name: found for name, found in model().items() if not name.endswith(".safetensors")}
    rig.hub.files[MODEL].pop("model.safetensors.index.json")
    rig.hub.files[MODEL]["model.safetensors"] = model()[SHARDS[0]]
    monkeypatch.setattr(web.WebFolder, "list", change)
    monkeypatch.setattr("tests.catalog.hubserver.is_large", lambda name: False)
    error = rig.failure(source=folder_of(rig), revision=None)
    assert (error.code, "changed during the download" in error.message) == ("DownloadFailed", True)
