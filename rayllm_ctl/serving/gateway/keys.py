"""API keys: a directory with an entry for each key, as a mounted Secret has them.

The name of a file is the name of the key. Its content is JSON: `sha256` (digest of the key in hexadecimal), `models`
(ids that the key may use; null for all), `limits` (`{requests, tokens}`, in place of the same limits of the settings),
`expires` and `created` (RFC 3339; null for never). The key itself is 256 random bits, so its digest needs no salt.
"""

from __future__ import annotations

import hmac
import json
import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from rayllm_ctl.serving.gateway.reader import SettingsError, items, optional, text
from rayllm_ctl.serving.gateway.settings import RateLimits
from rayllm_ctl.serving.gateway.steps import Client, Headers, Rejection
from rayllm_ctl.serving.gateway.user_config import read_rate_limits

LOG = logging.getLogger("rayllm.gateway")

CHECK_INTERVAL: Final = 1.0
"""Seconds between two looks at the directory."""

_LARGEST_ENTRY: Final = 64 * 1024
# "Bearer", any case, and one token; a key is never looked for anywhere else.
_BEARER: Final = re.compile(rb"bearer +([\x21-\x7e]+) *", re.IGNORECASE)
_CHALLENGE: Final = ((b"www-authenticate", b"Bearer"),)


@dataclass(frozen=True, slots=True)
class Entry:
    """One key, by its digest."""

    digest: bytes
    client: Client
    expires: float
    """Seconds since the epoch; infinite for a key that does not expire."""


class EntryError(ValueError):
    """An entry is invalid; the message has no part of its content."""


def read_entry(name: str, content: bytes) -> Entry:
    """The entry `name`. Raises EntryError."""
    try:
        given = json.loads(content.decode())
    except (ValueError, RecursionError):
        raise EntryError("not JSON in UTF-8") from None
    if not isinstance(given, dict) or not given.keys() <= _FIELDS.keys():
        raise EntryError(f"must be a mapping with no other fields than {', '.join(_FIELDS)}")
    read: dict[str, Any] = {}
    for field, (reader, form) in _FIELDS.items():
        try:
            read[field] = reader(given.get(field), field)
        except ValueError:
            raise EntryError(f"{field}: must be {form}") from None
    client = Client(name, read["models"], read["limits"])
    return Entry(read["sha256"], client, math.inf if read["expires"] is None else read["expires"])


def _digest(value: object, path: str) -> bytes:
    digest = bytes.fromhex(text(value, path))
    if len(digest) != sha256().digest_size:
        raise SettingsError(path)
    return digest


def _models(value: object, path: str) -> frozenset[str] | None:
    return None if value is None else frozenset(items(value, path, text))


def _limits(value: object, path: str) -> RateLimits | None:
    return optional(value, path, read_rate_limits)


def _time(value: object, path: str) -> float | None:
    if value is None:
        return None
    moment = datetime.fromisoformat(text(value, path))
    if moment.tzinfo is None:
        raise SettingsError(path)
    return moment.timestamp()


# Field -> its reader and what a message says of its form.
_FIELDS: Final[dict[str, tuple[Callable[[object, str], object], str]]] = {
    "sha256": (_digest, "64 hexadecimal digits"),
    "models": (_models, "a list of ids, or null"),
    "limits": (_limits, "null or a mapping with requests and tokens, such as 60/minute"),
    "expires": (_time, "null or a time with a time zone in the form of RFC 3339"),
    "created": (_time, "null or a time with a time zone in the form of RFC 3339"),
}


class KeyDirectory:
    """The keys of a directory, read again within a second of a change by a thread of its own.

    A directory that does not exist has no keys: nobody gets in.
    """

    def __init__(
        self, directory: str, *, interval: float = CHECK_INTERVAL, now: Callable[[], float] = time.time
    ) -> None:
        self._directory = Path(directory)
        self._now = now
        self._state: object = None
        self._entries: Mapping[bytes, Entry] = {}
        self._closed = threading.Event()
        self.refresh()
        threading.Thread(target=self._watch, args=(interval,), name="api-keys", daemon=True).start()

    def authenticate(self, headers: Headers) -> Client | Rejection:
        """The client whose key the headers carry, or a rejection with status 401."""
        values = [value for name, value in headers if name == b"authorization"]
        if not values:
            return _unauthorized("The API key is missing; send it as `Authorization: Bearer KEY`")
        match = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
        if match is None:
            return _unauthorized("The Authorization header must be `Bearer KEY`, once")
        digest = sha256(match[1]).digest()
        # What the time of the lookup depends on is the digest, which nobody can steer towards that of a key.
        entry = self._entries.get(digest)
        if entry is None or not hmac.compare_digest(entry.digest, digest):
            return _unauthorized("The API key is incorrect")
        if entry.expires <= self._now():
            return _unauthorized("The API key has expired")
        return entry.client

    def refresh(self) -> None:
        """Read the entries if the directory changed since they were read."""
        try:
            state = _state(self._directory)
            if state == self._state:
                return
            entries = self._read()
        except FileNotFoundError:
            # Either there is no directory, or the kubelet replaced it just now: then the next look reads the new one.
            if self._directory.is_dir():
                return
            state, entries = None, {}
        except OSError as error:
            if self._state != error.errno:
                LOG.error("API keys cannot be read: %s; those read before remain valid", error.strerror)
            self._state = error.errno
            return
        if self._entries.keys() != entries.keys():
            LOG.info("API keys: %d", len(entries))
        self._state, self._entries = state, entries

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _watch(self, interval: float) -> None:
        while not self._closed.wait(interval):
            try:
                self.refresh()
            except Exception:
                # Without this thread a revoked key would stay valid forever.
                LOG.exception("API keys cannot be read; those read before remain valid")

    def _read(self) -> dict[bytes, Entry]:
        # Resolved once: all entries are of one version of the Secret.
        directory = (self._directory / "..data").resolve() if _is_mount(self._directory) else self._directory
        entries: dict[bytes, Entry] = {}
        for path in sorted(directory.iterdir()):
            if path.name.startswith(".") or not path.is_file():
                continue
            try:
                with path.open("rb") as file:
                    content = file.read(_LARGEST_ENTRY + 1)
                if len(content) > _LARGEST_ENTRY:
                    raise EntryError(f"larger than {_LARGEST_ENTRY} bytes")
                entry = read_entry(path.name, content)
                if entry.digest in entries:
                    raise EntryError(f'the same key as "{entries[entry.digest].client.name}"')
            except EntryError as error:
                LOG.warning('API key "%s" skipped: %s', path.name, error)
            else:
                entries[entry.digest] = entry
        return entries


def _unauthorized(message: str) -> Rejection:
    return Rejection(401, message, "invalid_api_key", headers=_CHALLENGE)


def _is_mount(directory: Path) -> bool:
    return (directory / "..data").is_symlink()


def _state(directory: Path) -> object:
    """What differs after a change: where the kubelet's symbolic link points to, or else the files' times and sizes."""
    if _is_mount(directory):
        return str((directory / "..data").readlink())
    with os.scandir(directory) as found:
        states = [(item.name, item.stat()) for item in found]
    return sorted((name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in states)
