"""The Hugging Face Hub over plain HTTP: config.json, and how large the checkpoint is.

HF_ENDPOINT names another hub, HF_TOKEN (or the token that `hf auth login` stored) opens gated models, HTTPS_PROXY and
SSL_CERT_FILE apply. The look-up runs in a daemon thread: neither a resolver that does not answer nor a server that
drips can hold up a command for longer than it is willing to wait.

Not the huggingface-hub package: importing its downloads takes 0.2 s of CPU time, as much as all of `plan`, and it
bounds neither the time nor the size of an answer.
"""

from __future__ import annotations

import os
import re
import threading
import time
import urllib.parse
from typing import Any

from rayllm_ctl.catalog.sources import hfenv
from rayllm_ctl.catalog.sources.found import (
    MAX_HEADER_BYTES,
    MAX_JSON_BYTES,
    Checkpoint,
    has_template,
    indexed_bytes,
    parse_object,
)
from rayllm_ctl.catalog.sources.http import Answer, FetchError, get
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.model.text.problems import quoted

CONNECT_SECONDS = 3.0
OVERALL_SECONDS = 10.0
EXTRAS_SECONDS = 2.0
"""How long to wait, once config.json is there, for what a plan could do without."""

RETRY_SECONDS = (0.2, 0.5)
"""Pauses before a request is sent again."""

_TRANSIENT = frozenset({500, 502, 503, 504})
_DEFAULT_ENDPOINT = "https://huggingface.co"
_MODEL_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


class HubError(Exception):
    """The hub did not hand over the model.

    kind: gated, missing, revision (no such), no-config, rate-limited, broken (its answer) or offline (no answer).
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def endpoint() -> str:
    """The hub's address: HF_ENDPOINT, else the public one. UsageError if it is not an http(s) address."""
    address = (os.environ.get("HF_ENDPOINT") or _DEFAULT_ENDPOINT).rstrip("/")
    if not re.match(r"https?://[^/\s]", address):
        raise UsageError("HF_ENDPOINT is not an http or https address", hint=f"for example {_DEFAULT_ENDPOINT}")
    return address


def read(model_id: str, revision: str | None) -> Checkpoint:
    """The checkpoint as the hub has it. HubError if unavailable."""
    if not _MODEL_ID.fullmatch(model_id):
        raise HubError("missing", f"{quoted(model_id)} is not a valid name on the Hub (ORGANIZATION/NAME)")
    lookup = _Lookup(model_id, revision or "main")
    thread = threading.Thread(target=lookup.run, name="hub", daemon=True)
    thread.start()
    if not lookup.decided.wait(OVERALL_SECONDS):
        raise HubError("offline", f"{_host(lookup.endpoint)} did not answer within {OVERALL_SECONDS:g} s")
    lookup.finished.wait(EXTRAS_SECONDS)
    return lookup.result()


class _Lookup:
    """One look-up, filled in by its thread: first the config (or the error), then the rest."""

    def __init__(self, model_id: str, revision: str) -> None:
        self.model_id = model_id
        self.revision = revision
        self.endpoint = endpoint()
        self.headers = {"User-Agent": "rayllm-ctl", "Accept-Encoding": "identity", **_authorization()}
        self.decided = threading.Event()
        self.finished = threading.Event()
        self.deadline = time.monotonic() + OVERALL_SECONDS
        self.error: HubError | None = HubError("broken", "the request to the Hub ended early")
        self.config: dict[str, Any] = {}
        self.commit = ""
        self.quantization: dict[str, Any] | None = None
        self.exact_bytes: int | None = None
        self.chat_template: bool | None = None

    def run(self) -> None:
        try:
            answer = self._get("config.json")
            self.commit = answer.headers.get("x-repo-commit", "")
            self.config = parse_object(answer.body, "config.json")
            if "quantization_config" not in self.config:
                self.quantization = self._optional("hf_quant_config.json")
            self.error = None
        except FetchError as error:
            self.error = self._explained(error)
        except UserError as error:
            self.error = HubError("broken", f"{_host(self.endpoint)} sent an invalid file: {error.message}")
        finally:
            self.decided.set()
        if self.error is None:
            try:
                self.exact_bytes = self._tensor_bytes()
                tokenizer = self._optional("tokenizer_config.json")
                self.chat_template = None if tokenizer is None else has_template(tokenizer) or self._has_template_file()
            except (FetchError, UserError):
                pass  # the plan does without them
        self.finished.set()

    def result(self) -> Checkpoint:
        if self.error is not None:
            raise self.error
        commit = f", commit {self.commit[:7]}" if self.commit else ""
        where = "Hugging Face hub" if self.endpoint == _DEFAULT_ENDPOINT else f"hub {_host(self.endpoint)}"
        return Checkpoint(self.config, where + commit, self.quantization, self.exact_bytes, self.chat_template)

    def _get(self, file: str, *, limit: int = MAX_JSON_BYTES, whole: bool = True, span: str = "") -> Answer:
        revision = urllib.parse.quote(self.commit or self.revision, safe="")
        url = f"{self.endpoint}/{self.model_id}/resolve/{revision}/{file}"
        headers = self.headers | ({"Range": f"bytes={span}"} if span else {})
        for pause in (*RETRY_SECONDS, None):
            try:
                return get(
                    url,
                    headers=headers,
                    limit=limit,
                    deadline=self.deadline,
                    connect_timeout=CONNECT_SECONDS,
                    whole=whole,
                )
            except FetchError as error:
                if pause is None or error.status not in _TRANSIENT or time.monotonic() + pause > self.deadline:
                    raise
                time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _optional(self, file: str) -> dict[str, Any] | None:
        try:
            return parse_object(self._get(file).body, file)
        except FetchError as error:
            if error.status == 404:
                return None
            raise

    def _tensor_bytes(self) -> int | None:
        index = self._optional("model.safetensors.index.json")
        if index is not None:
            return indexed_bytes(index)
        try:
            answer = self._get("model.safetensors", limit=8, whole=False, span="0-7")
        except FetchError as error:
            if error.status == 404:
                return None
            raise
        size = re.fullmatch(r"bytes 0-7/(\d+)", answer.headers.get("content-range", ""))
        header = int.from_bytes(answer.body, "little")
        if size is None or len(answer.body) < 8 or not 0 < header <= min(MAX_HEADER_BYTES, int(size[1]) - 8):
            return None
        return int(size[1]) - 8 - header

    def _has_template_file(self) -> bool:
        try:
            self._get("chat_template.jinja")
        except FetchError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _explained(self, error: FetchError) -> HubError:
        hub = _host(self.endpoint)
        if error.code == "RevisionNotFound":
            return HubError("revision", f"{self.model_id} has no revision {quoted(self.revision)} on {hub}")
        if error.code == "EntryNotFound":
            return HubError("no-config", f"{self.model_id} has no config.json on {hub}: vLLM cannot load it")
        if error.status == 404 or error.code == "RepoNotFound":
            return HubError("missing", f"{hub} has no model {self.model_id}, or it is private")
        if error.status in (401, 403):
            return HubError("gated", f"{self.model_id} is gated or private on {hub} (HTTP {error.status})")
        if error.status == 429:
            after = f"; retry after {error.retry_after} s" if error.retry_after.isdigit() else ""
            return HubError("rate-limited", f"{hub} rejects further requests for now (HTTP 429){after}")
        return HubError("broken" if error.status else "offline", f"{hub} {error}")


def _authorization() -> dict[str, str]:
    token = hfenv.token()
    if not token:
        return {}
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise UserError("HF_TOKEN is not a valid token: it contains spaces or characters that no token has")
    return {"Authorization": f"Bearer {token}"}


def _host(url: str) -> str:
    """The host of `url`, without user and password."""
    return urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
