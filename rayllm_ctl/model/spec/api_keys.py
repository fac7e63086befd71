"""API keys of a gateway, as their Secret holds them: an entry for each, with its hash and what it may do.

The gateway (rayllm_ctl.serving.gateway) reads the same entries: name of the entry: name of the key; value: JSON.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.spec.checks.gateway import rate_problem
from rayllm_ctl.model.text.patterns import MODEL_ID
from rayllm_ctl.model.text.problems import quoted

PREFIX = "rayllm-"
"""The prefix of keys, so that people and secret scanners recognize them."""

_NAME = re.compile(r"[A-Za-z0-9](?:[-._A-Za-z0-9]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True)
class ApiKey:
    """A key without what proves it. models: those that it may use; None: all. requests, tokens: its own limits.

    problem: why the gateway cannot read the entry, and rejects the key; empty if it can.
    """

    name: str
    created: datetime | None = None
    expires: datetime | None = None
    models: tuple[str, ...] | None = None
    requests: str | None = None
    tokens: str | None = None
    problem: str = ""


def new_key() -> str:
    """A key with 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def key_problems(key: ApiKey, now: datetime) -> Iterator[str]:
    """The problem of a key to be created, in terms of the flags."""
    if not _NAME.fullmatch(key.name):
        yield (
            f"{quoted(key.name)} is not a valid name of a key: at most 63 letters, digits, '-', '_' and '.', with a "
            "letter or digit at both ends"
        )
    for model in key.models or ():
        if not MODEL_ID.fullmatch(model):
            yield f"{quoted(model)} is not a valid model name"
    for rate in (key.requests, key.tokens):
        if rate is not None and (problem := rate_problem(rate)):
            yield problem
    if key.expires is not None and key.expires <= now:
        yield f"the key would have expired at {timestamp(key.expires)}"


def key_entry(key: ApiKey, secret: str) -> str:
    """The value of the entry of `key`, whose text is `secret`."""
    limits = {"requests": key.requests, "tokens": key.tokens}
    return json.dumps(
        {
            # 256 random bits need no salt and no slow hash: nobody can try them all.
            "sha256": hashlib.sha256(secret.encode()).hexdigest(),
            "models": None if key.models is None else list(key.models),
            "limits": limits if any(limits.values()) else None,
            "expires": None if key.expires is None else timestamp(key.expires),
            "created": None if key.created is None else timestamp(key.created),
        }
    )


def keys_of(secret: Mapping[str, Any]) -> list[ApiKey]:
    """The keys in a Secret, by name."""
    data: Mapping[str, str] = secret.get("data") or {}
    return [_read(name, data[name]) for name in sorted(data)]


def timestamp(time: datetime) -> str:
    """RFC 3339, in UTC and whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _read(name: str, encoded: str) -> ApiKey:
    try:
        found = json.loads(base64.b64decode(encoded, validate=True))
        if not re.fullmatch(r"[0-9a-f]{64}", found["sha256"]):
            raise ValueError
        models, limits = found.get("models"), found.get("limits") or {}
        return ApiKey(
            name,
            _time(found.get("created")),
            _time(found.get("expires")),
            None if models is None else tuple(map(str, models)),
            limits.get("requests"),
            limits.get("tokens"),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return ApiKey(name, problem="not an entry of rayllm-ctl keys")


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
