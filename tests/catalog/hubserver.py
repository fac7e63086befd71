"""A small hub on the loopback interface: the routes of the Hugging Face hub, and every way to misbehave."""

from __future__ import annotations

import hashlib
import json
import re
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from huggingface_hub import close_session

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}


def safetensors(data_bytes: int) -> bytes:
    """A file of that format with one tensor of `data_bytes` bytes."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [data_bytes], "data_offsets": [0, data_bytes]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(data_bytes)


def git_sha1(content: bytes) -> str:
    """The checksum of Git, by which the hub knows small files."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def flip(content: bytes) -> bytes:
    """The same with one wrong byte, the last."""
    return content[:-1] + bytes((content[-1] ^ 1,))


def sibling(name: str, content: bytes, described: bool) -> dict[str, Any]:
    """A file in a list of the hub."""
    found: dict[str, Any] = {"rfilename": name}
    if described:
        found |= {"size": len(content), "blobId": git_sha1(content)}
        if is_large(name):
            found["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
    return found


def is_large(file: str) -> bool:
    """Whether the hub keeps a file of this name as an LFS object, at another address."""
    return file.endswith((".safetensors", ".bin"))


@dataclass
class Hub:
    """What the server holds, by repository and file, how it behaves (`mode`), and what was asked (`seen`).

    `faults` are statuses, with seconds of Retry-After, that the next requests for files get. `flipped` counts the
    answers for a file, by its name, in which a byte is wrong. `sent` are bytes of files that left the server, and
    `pace` is how long it rests after each `piece` of them.
    """

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    mode: str = "ok"
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    address: str = ""
    other_address: str = ""
    token: str = ""
    faults: list[tuple[int, str]] = field(default_factory=list)
    flipped: dict[str, int] = field(default_factory=dict)
    sent: int = 0
    pace: float = 0.0
    piece: int = 1 << 16
    describes: bool = True
    """Whether lists of files have their sizes and checksums."""

    def add(self, repo: str, **files: Any) -> None:
        """Keyword `config` becomes config.json, and so on; values are JSON data or bytes."""
        names = {
            "index": "model.safetensors.index.json",
            "weights": "model.safetensors",
            "template": "chat_template.jinja",
        }
        self.files[repo] = {
            names.get(name, f"{name}.json"): value if isinstance(value, bytes) else json.dumps(value).encode()
            for name, value in files.items()
        }


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(self.path)
            hub.seen.append((path, {name.lower(): value for name, value in self.headers.items()}))
            if path.startswith("/cdn/"):
                repo, file = path.removeprefix("/cdn/").partition("?")[0].rsplit("//", 1)
                return None if self.fault() else self.file(hub.files[repo][file], file)
            if path.startswith("/api/models/"):
                return self.api(path.removeprefix("/api/models/"))
            repo, _, rest = path.lstrip("/").partition("/resolve/")
            revision, _, file = rest.partition("/")
            misbehave = getattr(self, f"mode_{hub.mode.replace('-', '_')}", None)
            if misbehave and misbehave(repo, file):
                return None
            if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
                return self.refuse(401, "GatedRepo")
            if repo not in hub.files:
                return self.refuse(404, "RepoNotFound")
            if revision not in ("main", "v1", COMMIT):
                return self.refuse(404, "RevisionNotFound")
            if file not in hub.files[repo]:
                return self.refuse(404, "EntryNotFound")
            content = hub.files[repo][file]
            if is_large(file):
                sha256 = hashlib.sha256(content).hexdigest()
                linked = {"X_Linked_Size": str(len(content)), "X_Linked_Etag": f'"{sha256}"'}
                target = f"{hub.other_address or hub.address}/cdn/{repo}//{file}"
                return self.refuse(302, Location=target, X_Repo_Commit=COMMIT, **linked)
            return None if self.fault() else self.file(content, file)

        def file(self, content: bytes, name: str = "") -> None:
            etag = f'"{git_sha1(content)}"'
            if self.headers.get("If-Match", etag) != etag:
                return self.refuse(412)
            if hub.flipped.get(name) and self.command == "GET":
                hub.flipped[name] -= 1
                content = flip(content)
            total = len(content)
            span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if span and int(span[1]) >= total:
                return self.refuse(416, Content_Range=f"bytes */{total}")
            self.send_response(206 if span else 200)
            if span:
                first, last = int(span[1]), min(int(span[2] or total), total - 1)
                self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
                content = content[first : last + 1]
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "HEAD":
                return None
            try:
                for start in range(0, len(content), hub.piece):
                    self.wfile.write(content[start : start + hub.piece])
                    hub.sent += len(content[start : start + hub.piece])
                    if hub.pace:
                        time.sleep(hub.pace)
            except OSError:  # the client is gone
                self.close_connection = True

        def api(self, path: str) -> None:
            """The files of a repository, with what the hub knows of each if the request asks for it."""
            if "/tree/" in path:
                return self.tree(path.partition("/tree/")[0])
            repo, _, revision = urlsplit(path).path.partition("/revision/")
            if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
                return self.refuse(401, "GatedRepo")
            if self.fault():
                return None
            if repo not in hub.files:
                return self.refuse(401, "RepoNotFound")
            if revision not in ("main", "v1", COMMIT):
                return self.refuse(404, "RevisionNotFound")
            described = hub.describes and "blobs=" in path
            siblings = [sibling(name, content, described) for name, content in hub.files[repo].items()]
            answer = json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
            return None

        def tree(self, repo: str) -> None:
            """The files of a repository, as huggingface_hub 2 asks for them."""
            entries = []
            for name, content in hub.files[repo].items():
                known = sibling(name, content, True)
                entry = {"type": "file", "path": name, "size": known["size"], "oid": known["blobId"]}
                if "lfs" in known:
                    entry["lfs"] = {"oid": known["lfs"]["sha256"], "size": known["size"], "pointerSize": 130}
                entries.append(entry)
            self.file(json.dumps(entries).encode())

        def fault(self) -> bool:
            if not hub.faults:
                return False
            status, after = hub.faults.pop(0)
            self.refuse(status, **({"Retry_After": after} if after else {}))
            return True

        def refuse(self, status: int, code: str = "", **headers: str) -> None:
            self.send_response(status)
            if code:
                self.send_header("X-Error-Code", code)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def redirect(self, target: str) -> None:
            self.refuse(302, Location=target)

        def endless_body(self, piece: bytes = b" " * 200_000, pause: float = 0.0) -> None:
            self.end_headers()
            self.close_connection = True
            try:
                while not hub.mode.endswith("over"):
                    self.wfile.write(piece)
                    self.wfile.flush()
                    time.sleep(pause)
            except OSError:
                pass

        def mode_gated(self, repo: str, file: str) -> bool:
            self.refuse(403, "GatedRepo")
            return True

        def mode_rate_limited(self, repo: str, file: str) -> bool:
            self.refuse(429, Retry_After="120")
            return True

        def mode_broken(self, repo: str, file: str) -> bool:
            self.refuse(503)
            return True

        def mode_flaky(self, repo: str, file: str) -> bool:
            if len(hub.seen) > 2:
                return False
            self.refuse(503)
            return True

        def mode_silent(self, repo: str, file: str) -> bool:
            while hub.mode == "silent":
                time.sleep(0.02)
            self.close_connection = True
            return True

        def mode_drip(self, repo: str, file: str) -> bool:
            self.send_response(200)
            self.endless_body(b"{", 0.05)
            return True

        def mode_endless(self, repo: str, file: str) -> bool:
            self.send_response(200)
            self.endless_body()
            return True

        def mode_gigantic(self, repo: str, file: str) -> bool:
            self.send_response(200)
            self.send_header("Content-Length", str(10**12))
            self.end_headers()
            self.close_connection = True
            return True

        def mode_truncated(self, repo: str, file: str) -> bool:
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"architectures"')
            self.close_connection = True
            return True

        def mode_malformed(self, repo: str, file: str) -> bool:
            self.file(b"<html>Sign in</html>")
            return True

        def mode_loop(self, repo: str, file: str) -> bool:
            self.redirect(self.path + "?again")
            return True

        def mode_downgrade(self, repo: str, file: str) -> bool:
            self.redirect("ftp://127.0.0.1/config.json")
            return True

        def mode_endless_error(self, repo: str, file: str) -> bool:
            self.send_response(403)
            self.send_header("X-Error-Code", "GatedRepo")
            self.send_header("X-HF-Warning", "a message of the server")
            self.endless_body()
            return True

        def mode_endless_redirect(self, repo: str, file: str) -> bool:
            self.send_response(302)
            self.send_header("Location", f"{hub.other_address}/cdn/{repo}//{file}")
            self.endless_body()
            return True

        def mode_only_config(self, repo: str, file: str) -> bool:
            """Answers for config.json; every other file hangs."""
            return file != "config.json" and self.mode_silent_extras()

        def mode_silent_extras(self) -> bool:
            while hub.mode == "only-config":
                time.sleep(0.02)
            self.close_connection = True
            return True

    return Handler


@contextmanager
def running(hub: Hub, certificates: ssl.SSLContext | None = None, address: str = "127.0.0.1") -> Iterator[Hub]:
    """Serve `hub` on two ports: the second stands for a host of its own, as a CDN is. With certificates, by https.

    huggingface-hub keeps a session, with the proxies and certificates of its first request; none outlives the server.
    """
    close_session()
    servers = [ThreadingHTTPServer((address, 0), _handler(hub)) for _ in range(2)]
    for server in servers:
        server.daemon_threads = True
        if certificates is not None:
            server.socket = certificates.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    scheme = "https" if certificates else "http"
    hub.address, hub.other_address = (f"{scheme}://{address}:{server.server_address[1]}" for server in servers)
    try:
        yield hub
    finally:
        hub.mode = "over"
        for server in servers:
            server.shutdown()
            server.server_close()
        close_session()
