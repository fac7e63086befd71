"""A server known only by its address: as the target of a load test, and its metrics."""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.loadtest.connection import tls_context
from rayllm_ctl.loadtest.listing import ListingError, first_model
from rayllm_ctl.loadtest.settings import Target
from rayllm_ctl.model.bench.service import LoadLook
from rayllm_ctl.model.observed.vllm_metrics import engine_figures
from rayllm_ctl.workflows.bench.flags import Flags, key_source
from rayllm_ctl.workflows.bench.predict import SERVED

_TIMEOUT = 2.0
_EXAMPLE = "--url http://127.0.0.1:8000/v1"


def target_of(flags: Flags, url: str) -> Target:
    """The target at --url. Raises UsageError for an address or certificates that cannot be used, UserError if the
    server lists no models and none was named."""
    usable = url.isascii() and url.isprintable() and " " not in url
    try:
        parts = urlsplit(url)
    except ValueError:  # raised for an invalid IPv6 address
        usable = False
    if not usable or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--url {url} is not an http or https address", hint=_EXAMPLE)
    if not _has_possible_port(parts):
        raise UsageError(f"--url {url}: the port must be a number from 1 to 65535", hint=_EXAMPLE)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError("--url must consist of scheme, host, port and path", hint="--api-key-file FILE    # for a key")
    if parts.scheme == "http" and (flags.ca_file or flags.insecure_skip_tls_verify):
        raise UsageError("--ca-file and --insecure-skip-tls-verify are for https", hint="remove them")
    ca_file = str(flags.ca_file) if flags.ca_file else ""
    target = Target(url, flags.models, flags.keys, flags.api, ca_file, flags.insecure_skip_tls_verify)
    try:
        tls_context(target)
    except OSError as error:  # ssl's errors are among them
        raise UsageError(f"--ca-file {flags.ca_file} has no usable certificates: {error}") from error
    if target.models:
        return target
    try:
        return replace(target, models=(first_model(target),))
    except ListingError as error:
        raise UserError(_listing_problem(error, flags), hint=_listing_hints(error, flags, parts)) from error


def _has_possible_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def _listing_problem(error: ListingError, flags: Flags) -> str:
    return (
        f"{error}: the server rejected the key of {key_source(flags)}" if error.rejected and flags.keys else str(error)
    )


def _listing_hints(error: ListingError, flags: Flags, parts: SplitResult) -> tuple[str, ...]:
    if error.rejected:
        return (
            ("--api-key-file FILE    # with a key that the server accepts",)
            if flags.keys
            else ("--api-key-file FILE    # or RAYLLM_API_KEY",)
        )
    if error.tls:
        other = "http" if parts.scheme == "https" else "https"
        certificates = ("--ca-file FILE    # the certificates to trust",) if parts.scheme == "https" else ()
        return (f"--url {urlunsplit(parts._replace(scheme=other))}    # if it answers there", *certificates)
    check = "check the address, which includes /v1"
    return (f"{check}, and that the server runs",) if error.unreached else (check, "--model NAME")


def url_versions(target: Target) -> dict[str, str | None]:
    """The version of vLLM from GET /version, next to /v1; None if the server has no such endpoint."""
    try:
        with _get(target, "version") as response:
            answer = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError):
        return dict.fromkeys(SERVED)
    version = answer.get("version") if isinstance(answer, dict) else None
    return {**dict.fromkeys(SERVED), "vllm": version if isinstance(version, str) else None}


def _get(target: Target, name: str) -> Any:
    """The response to a GET of `name` next to /v1."""
    url = f"{target.url.rstrip('/').removesuffix('/v1')}/{name}"
    headers = {"Authorization": f"Bearer {target.keys[0]}"} if target.keys else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - Target has http and https only
    context = tls_context(target) if url.startswith("https") else None
    return urllib.request.urlopen(request, timeout=_TIMEOUT, context=context)  # noqa: S310


def url_look(target: Target) -> Callable[[], LoadLook] | None:
    """Reads GET /metrics, next to /v1; None if it has no metrics of vLLM."""

    def look() -> LoadLook:
        try:
            with _get(target, "metrics") as response:
                text = response.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            url = f"{target.url.rstrip('/').removesuffix('/v1')}/metrics"
            return LoadLook(problems=(f"GET {url} failed: {getattr(error, 'reason', error)}",))
        return LoadLook(engine=engine_figures({"": text}))

    return look if look().engine is not None else None
