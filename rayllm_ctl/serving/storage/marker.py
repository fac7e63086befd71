"""The marker of a complete folder: what is in it, and from where. It is written last."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rayllm_ctl.serving.storage.failures import shown
from rayllm_ctl.serving.storage.settings import StorageSettings

MARKER_NAME = ".rayllm-complete"
_VERSION = 1

How = Literal["sha256", "git-sha1", "md5", "crc32c", "size"]
"""What a file was compared with at its source. `size`: the source has no checksum of it."""


@dataclass(frozen=True, slots=True)
class MarkedFile:
    """A file of a complete folder."""

    bytes: int
    sha256: str
    verified: How


@dataclass(frozen=True, slots=True)
class Marker:
    """The content of a marker. `commit` is that of a repository of the Hub."""

    source: str
    revision: str | None
    commit: str | None
    files: Mapping[str, MarkedFile]
    finished: str

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(entry.bytes for entry in self.files.values())

    def text(self) -> str:
        """As it is written."""
        data = {
            "version": _VERSION,
            "source": self.source,
            "revision": self.revision,
            "commit": self.commit,
            "files": {name: asdict(entry) for name, entry in sorted(self.files.items())},
            "bytes": self.bytes,
            "finished": self.finished,
        }
        return json.dumps(data, indent=1)


def parse_marker(text: bytes | str | None) -> Marker | None:
    """The marker of a file's content; None if it is not one of this version."""
    try:
        data: Any = json.loads(text or "null")
        if not isinstance(data, dict) or data.get("version") != _VERSION:
            return None
        files = {name: MarkedFile(int(e["bytes"]), e["sha256"], e["verified"]) for name, e in data["files"].items()}
        return Marker(data["source"], data["revision"], data["commit"], files, data["finished"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def source_of(settings: StorageSettings) -> str:
    """The source as a marker names it: without user, password and signature."""
    return shown(settings.source)


def other_source(marker: Marker, settings: StorageSettings) -> str | None:
    """How the marker's source differs from that of the settings; None if it does not."""
    if marker.source != source_of(settings):
        return f"the folder has {marker.source}, not {source_of(settings)}"
    if marker.revision != settings.revision:
        return f"the folder has revision {marker.revision}, not {settings.revision}"
    return None


def incomplete(marker: Marker | None, settings: StorageSettings, sizes: Mapping[str, int]) -> str | None:
    """Why a folder is not complete, given the bytes of the files that are in it; None if it is."""
    if marker is None:
        return "no marker"
    if other := other_source(marker, settings):
        return other
    return next(iter(wrong_sizes(marker, sizes).values()), None)


def wrong_sizes(marker: Marker, sizes: Mapping[str, int]) -> dict[str, str]:
    """The files that are missing or of another size, each with what is wrong."""
    found = {}
    for name, entry in marker.files.items():
        size = sizes.get(name)
        if size is None:
            found[name] = f"{name} is missing"
        elif size != entry.bytes:
            found[name] = f"{name} has {size} of {entry.bytes} bytes"
    return found
