"""The Hugging Face Hub over the huggingface-hub package: config.json, and how large the checkpoint is.

HF_ENDPOINT names another hub, HF_TOKEN (or the token that `hf auth login` stored) opens gated models, HTTPS_PROXY and
SSL_CERT_FILE apply. The look-up runs in a daemon thread: neither a resolver that does not answer, a token that is
renewed, nor a server that drips can delay a command for longer than it is willing to wait.

The package provides the addresses, the token, the session and the errors. It limits neither the time nor the size of an
answer, so `http` reads them. For the same reason two of its functions are not used: `build_hf_headers` asks the hub for
a list of coding agents, of any size, to name one in User-Agent; `parse_safetensors_file_metadata` reads the whole file
if a server ignores ranges, and up to 25 MB of header, of which the first eight bytes are enough here.
"""

from __future__ import annotations

import os
import re
import threading
import time
import urllib.parse
from typing import Any

import httpx2
from huggingface_hub import constants, get_token, hf_hub_url
from huggingface_hub.errors import (
    EntryNotFoundError,
    HfHubHTTPError,
    HFValidationError,
    OIDCError,
    RevisionNotFoundError,
)

from rayllm_ctl.catalog.sources import hfenv
from rayllm_ctl.catalog.sources.found import (
    MAX_HEADER_BYTES,
    MAX_JSON_BYTES,
    Checkpoint,
    has_template,
    indexed_bytes,
    parse_object,
)
from rayllm_ctl.catalog.sources.http import Answer, FetchError, get, open_session
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.text.problems import quoted

CONNECT_SECONDS = 3.0
OVERALL_SECONDS = 10.0
EXTRAS_SECONDS = 2.0
"""How long to wait, once config.json is there, for what a plan could do without."""

RETRY_SECONDS = (0.2, 0.5)
"""Pauses before a request is sent again."""

_TRANSIENT = frozenset({500, 502, 503, 504})


class HubError(Exception):
    """The hub did not hand over the model.

    kind: gated, missing, revision (no such), no-config, rate-limited, broken (its answer), offline (no answer)
    or token (none that can be sent).
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def read(model_id: str, revision: str | None) -> Checkpoint:
    """The checkpoint as the hub has it. HubError if unavailable."""
    lookup = _Lookup(model_id, revision or constants.DEFAULT_REVISION)
    try:
        lookup.url("config.json")
    except HFValidationError:
        message = f"{quoted(model_id)} is not a valid name on the Hub (ORGANIZATION/NAME)"
        raise HubError("missing", message) from None
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
        self.endpoint = hfenv.endpoint()
        self.headers = {"User-Agent": "rayllm-ctl", "Accept-Encoding": "identity"}
        self.decided = threading.Event()
        self.finished = threading.Event()
        self.deadline = time.monotonic() + OVERALL_SECONDS
        self.error: HubError | None = HubError("broken", "the request to the Hub ended early")
        self.config: dict[str, Any] = {}
        self.commit = ""
        self.quantization: dict[str, Any] | None = None
        self.exact_bytes: int | None = None
        self.chat_template: bool | None = None

    def url(self, file: str) -> str:
        """HFValidationError if there can be no model of this name."""
        return hf_hub_url(self.model_id, file, revision=self.commit or self.revision, endpoint=self.endpoint)

    def run(self) -> None:
        try:
            self.session = open_session()
            self.headers |= _authorization()
            answer = self._get("config.json")
            self.commit = answer.headers.get("x-repo-commit", "")
            self.config = parse_object(answer.body, "config.json")
            if "quantization_config" not in self.config:
                self.quantization = self._optional("hf_quant_config.json")
            self.error = None
        except HubError as error:
            self.error = error
        except FetchError as error:
            self.error = HubError(error.kind, f"{_host(self.endpoint)} {error}")
        except HfHubHTTPError as error:
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
            except (FetchError, HfHubHTTPError, UserError):
                pass  # the plan does without them
        self.finished.set()

    def result(self) -> Checkpoint:
        if self.error is not None:
            raise self.error
        commit = f", commit {self.commit[:7]}" if self.commit else ""
        where = "Hugging Face hub" if self.endpoint == hfenv.DEFAULT_ENDPOINT else f"hub {_host(self.endpoint)}"
        return Checkpoint(self.config, where + commit, self.quantization, self.exact_bytes, self.chat_template)

    def _get(self, file: str, *, first: int = 0) -> Answer:
        """The file, or its first bytes alone."""
        headers = self.headers | ({"Range": f"bytes=0-{first - 1}"} if first else {})
        limit, whole = first or MAX_JSON_BYTES, not first
        for pause in (*RETRY_SECONDS, None):
            try:
                return get(
                    self.session, self.url(file), headers, limit, whole=whole, deadline=self.deadline,
                    timeout=CONNECT_SECONDS,
                )  # fmt: skip
            except HfHubHTTPError as error:
                transient = error.response.status_code in _TRANSIENT
                if pause is None or not transient or time.monotonic() + pause > self.deadline:
                    raise
                time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _find(self, file: str, *, first: int = 0) -> Answer | None:
        """As _get(); None if the model has no such file."""
        try:
            return self._get(file, first=first)
        except HfHubHTTPError as error:
            if error.response.status_code == 404:
                return None
            raise

    def _optional(self, file: str) -> dict[str, Any] | None:
        answer = self._find(file)
        return None if answer is None else parse_object(answer.body, file)

    def _tensor_bytes(self) -> int | None:
        index = self._optional("model.safetensors.index.json")
        if index is not None:
            return indexed_bytes(index)
        answer = self._find("model.safetensors", first=8)
        if answer is None:
            return None
        size = re.fullmatch(r"bytes 0-7/(\d+)", answer.headers.get("content-range", ""))
        header = int.from_bytes(answer.body, "little")
        if size is None or len(answer.body) < 8 or not 0 < header <= min(MAX_HEADER_BYTES, int(size[1]) - 8):
            return None
        return int(size[1]) - 8 - header

    def _has_template_file(self) -> bool:
        return self._find("chat_template.jinja") is not None

    def _explained(self, error: HfHubHTTPError) -> HubError:
        hub, status, headers = _host(self.endpoint), error.response.status_code, error.response.headers
        if isinstance(error, RevisionNotFoundError):
            return HubError("revision", f"{self.model_id} has no revision {quoted(self.revision)} on {hub}")
        if isinstance(error, EntryNotFoundError):
            return HubError("no-config", f"{self.model_id} has no config.json on {hub}: vLLM cannot load it")
        # The package takes a 401 of any https server for RepositoryNotFoundError; mirrors send it for lack of a token.
        if status == 404 or headers.get("X-Error-Code") == "RepoNotFound":
            return HubError("missing", f"{hub} has no model {self.model_id}, or it is private")
        if status in (401, 403):
            return HubError("gated", f"{self.model_id} is gated or private on {hub} (HTTP {status})")
        if status == 429:
            seconds = headers.get("Retry-After", "")
            after = f"; retry after {seconds} s" if seconds.isdigit() else ""
            return HubError("rate-limited", f"{hub} rejects further requests for now (HTTP 429){after}")
        return HubError("broken", f"{hub} returned HTTP {status}")


def _authorization() -> dict[str, str]:
    """The header with the token, if there is one. HubError, without it, if it cannot be sent."""
    if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
        return {}
    try:
        token = get_token()
    except (OIDCError, httpx2.HTTPError, LookupError, OSError, ValueError) as error:
        if not os.environ.get("HF_OIDC_RESOURCE"):
            return {}  # the file with the token cannot be read
        reason = error if isinstance(error, OIDCError) else "the hub did not exchange the token of the CI job"
        raise HubError("token", f"no token for HF_OIDC_RESOURCE: {reason}") from error
    if not token:
        return {}
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise HubError("token", "HF_TOKEN is not a valid token: it contains spaces or characters that no token has")
    return {"Authorization": f"Bearer {token}"}


def _host(url: str) -> str:
    """The host of `url`, without user and password."""
    return urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
