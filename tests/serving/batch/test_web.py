"""Input from a web server of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.serving.batch.conftest import Rig

CONTENT = "".join(f"row {i}\n" for i in range(250)).encode()


class Handler(BaseHTTPRequestHandler):
    """Serves one file; a name says how the server behaves."""

    def do_GET(self) -> None:
        name = self.path.partition("?")[0]
        content = {"/rows.txt": CONTENT, "/plain.txt": CONTENT, "/empty.txt": b""}.get(name)
        if content is None:
            self.send_error(403 if name == "/secret.txt" else 404)
            return
        first, last = (int(text) for text in self.headers["Range"].removeprefix("bytes=").split("-"))
        if name == "/plain.txt":
            self.send_response(200)
            found = content
        elif first >= len(content):
            self.send_error(416)
            return
        else:
            self.send_response(206)
            found = content[first : last + 1]
            self.send_header("Content-Range", f"bytes {first}-{first + len(found) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    made.server_close()
    thread.join()


def test_each_part_is_read_where_it_lies(rig: Rig, server: str) -> None:
    given = {"paths": [f"{server}/rows.txt?signature=1"]}
    code, _ = rig.run(rig.settings("text", "jsonl", input=given, job={"partRows": 100}, prompt={"chat": False}))
    assert code == 0
    assert [row["answer"] for row in rig.rows()] == [f"row {i}" for i in range(250)]
    assert len(list(rig.root.glob("out/part-*"))) == 3


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("none.txt", "InputMissing", "was not found: HTTP 404"),
        ("secret.txt", "AccessDenied", "was denied: HTTP 403"),
        ("plain.txt", "InputMissing", "does not support range requests"),
        ("empty.txt", "NoRows", "no rows"),
    ],
)
def test_what_cannot_be_read_is_rejected(rig: Rig, server: str, name: str, code: str, words: str) -> None:
    failed = rig.failure(rig.settings("text", "jsonl", input={"paths": [f"{server}/{name}"]}))
    assert failed["code"] == code
    assert f"{server}/{name}" in failed["message"] or code == "NoRows"
    assert words in failed["message"]


def test_a_server_that_does_not_answer_is_a_failure_that_may_pass(rig: Rig) -> None:
    code, events = rig.run(rig.settings("text", "jsonl", input={"paths": ["http://127.0.0.1:9/rows.txt"]}))
    assert (code, events[-1]["code"]) == (3, "Failed")
    assert "refused" in events[-1]["message"]
