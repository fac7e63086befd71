"""A repository of the Hugging Face Hub, or of another hub that HF_ENDPOINT names.

Files are read in ranges from the addresses that the hub redirects to, also those in Xet storage, which the hub serves
over HTTP as well. hf_xet, the package's own transfer for these, is not used: it writes a file in any order, so neither
can its checksum be computed while it arrives nor a killed download continue inside it, and its buffers are not bounded
by what a pod may have.

Of huggingface_hub (0.20 or later) the token, the addresses and the constants are used. `build_hf_headers` of release 2
asks the hub for a list of coding agents first, of any size.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import urllib3
from huggingface_hub import constants, get_token, hf_hub_url

from rayllm_ctl.serving.storage.failures import StorageError
from rayllm_ctl.serving.storage.sources import http
from rayllm_ctl.serving.storage.sources.remote import Listing, Remote
from rayllm_ctl.serving.storage.sources.selection import select

_MAX_LISTING_BYTES = 64 << 20
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ACCESS_HINT = (
    "accept the model's terms on the Hub, then kubectl create secret generic hf-token --from-file=token=FILE "
    "and --hf-token-secret hf-token/token"
)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA1 = re.compile(r"[0-9a-f]{40}")


class Hub:
    """One repository at one revision."""

    def __init__(self, repository: str, revision: str) -> None:
        if constants.HF_HUB_OFFLINE:
            raise StorageError(
                "DownloadFailed", "HF_HUB_OFFLINE is set: nothing is downloaded", "remove it from spec.engine.env"
            )
        self.repository, self.revision = repository, revision
        self._endpoint = (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")
        self._commit = ""
        self._web = http.WebClient()
        self._targets: dict[str, str] = {}
        """Where the hub redirects to, by file. These addresses are valid for about an hour."""
        self._lock = threading.Lock()

    def list(self) -> Listing:
        """The files of the revision, with the checksums that the hub has."""
        revision = quote(self.revision, safe="")
        url = f"{self._endpoint}/api/models/{self.repository}/revision/{revision}?blobs=true"
        with self._get(url, {}) as (answer, _):
            content = http.whole(answer, _MAX_LISTING_BYTES, url)
        try:
            data = json.loads(content)
            self._commit = data["sha"]
            files = [self._remote(item) for item in data["siblings"]]
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                "DownloadFailed", f"{self._host()} sent an invalid list of files", "check HF_ENDPOINT"
            ) from error
        return select(files, self._commit)

    def stream(self, file: Remote, start: int, stop: int) -> Iterator[bytes]:
        """Bytes of a file, from the address that the hub names."""
        url = self._url(file.name)
        known = self._targets.get(file.name)
        if known is not None:
            with self._web.get(known, http.range_of(start, stop)) as answer:
                if answer.status in (200, 206):
                    yield from http.body(answer, start, stop, known)
                    return
                if answer.status not in (400, 401, 403, 404, 410):
                    http.check_status(answer, known, _ACCESS_HINT)
            with self._lock:
                self._targets.pop(file.name, None)  # It has expired.
        with self._get(url, http.range_of(start, stop)) as (answer, found):
            if found != url:
                with self._lock:
                    self._targets[file.name] = found
            yield from http.body(answer, start, stop, found)

    def _remote(self, item: dict[str, Any]) -> Remote:
        """A file of the list. Mirrors may leave out what the headers of the file tell as well."""
        name, lfs = item["rfilename"], item.get("lfs") or {}
        if "size" not in item:
            return self._asked(name)
        size, blob, sha256 = int(lfs.get("size", item["size"])), item.get("blobId"), lfs.get("sha256")
        return _described(name, size, sha256 or blob)

    def _asked(self, name: str) -> Remote:
        with self._get(self._url(name), http.range_of(0, 1), follow=False) as (answer, _):
            linked = answer.headers.get("X-Linked-Size", "")
            size = int(linked) if linked.isdigit() else http.total_of(answer)
            etag = answer.headers.get("X-Linked-Etag") or answer.headers.get("ETag") or ""
            if size is None and answer.status == 416:
                size = 0
        if size is None:
            raise StorageError(
                "DownloadFailed", f"{self._host()} does not tell the size of {name}", "check HF_ENDPOINT"
            )
        return _described(name, size, etag.removeprefix("W/").strip('"'))

    def _url(self, name: str) -> str:
        return hf_hub_url(self.repository, name, revision=self._commit, endpoint=self._endpoint)

    def _host(self) -> str:
        return urlsplit(self._endpoint).netloc.rpartition("@")[2]

    @contextlib.contextmanager
    def _get(
        self, url: str, headers: dict[str, str], *, follow: bool = True
    ) -> Iterator[tuple[urllib3.BaseHTTPResponse, str]]:
        """An answer and its address, after redirects; with `follow` false, to another server alone none is followed."""
        for _ in range(_MAX_REDIRECTS + 1):
            ours = urlsplit(url)[:2] == urlsplit(self._endpoint)[:2]
            with self._web.get(url, {**headers, **(self._authorization() if ours else {})}) as answer:
                location = answer.headers.get("Location", "")
                if answer.status not in _REDIRECTS or not location:
                    if ours:
                        self._check(answer, url)
                    else:
                        http.check_status(answer, url, _ACCESS_HINT)
                    yield answer, url
                    return
                following = urljoin(url, location)
                if not follow and urlsplit(following)[:2] != urlsplit(self._endpoint)[:2]:
                    yield answer, url
                    return
                if urlsplit(following).scheme not in ("https", urlsplit(url).scheme):
                    break
                url = following
        raise StorageError(
            "DownloadFailed", f"{self._host()} redirects to an address that is not used", "check HF_ENDPOINT"
        )

    def _authorization(self) -> dict[str, str]:
        token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
        if not token:
            return {}
        if not re.fullmatch(r"[\x21-\x7e]+", token):
            raise StorageError(
                "DownloadUnauthorized", "HF_TOKEN contains spaces or characters that no token has", _ACCESS_HINT
            )
        return {"Authorization": f"Bearer {token}"}

    def _check(self, answer: urllib3.BaseHTTPResponse, url: str) -> None:
        """StorageError or Temporary with the reason that the hub gives in a header."""
        code, model, host = answer.headers.get("X-Error-Code", ""), self.repository, self._host()
        if code == "GatedRepo" or (answer.status in (401, 403) and code != "RepoNotFound"):
            raise StorageError(
                "DownloadUnauthorized", f"{model} is gated or private on {host} (HTTP {answer.status})", _ACCESS_HINT
            )
        if code == "RevisionNotFound":
            raise StorageError(
                "DownloadNotFound", f'{model} has no revision "{self.revision}" on {host}', "set spec.model.revision"
            )
        if code == "RepoNotFound" or (answer.status == 404 and code != "EntryNotFound"):
            raise StorageError(
                "DownloadNotFound",
                f"{host} has no model {model}, or it is private (HTTP {answer.status})",
                "check spec.model.id; of a private model: kubectl create secret generic hf-token "
                "--from-file=token=FILE and --hf-token-secret hf-token/token",
            )
        if answer.status == 416:
            return
        http.check_status(answer, url, _ACCESS_HINT)


def _described(name: str, size: int, checksum: str | None) -> Remote:
    """A file by the checksum that the hub has of it: SHA-256 of a large file, or that of Git."""
    if checksum and _SHA256.fullmatch(checksum):
        return Remote(name, size, f"sha256:{checksum}", sha256=checksum)
    if checksum and _SHA1.fullmatch(checksum):
        return Remote(name, size, f"git:{checksum}", git_sha1=checksum)
    return Remote(name, size, f"etag:{checksum}:{size}")
