"""What a source is: a list of files, each of which can be read from any byte on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Remote:
    """A file at its source. `version` changes with its content; the checksums are those that the source has."""

    name: str
    size: int
    version: str
    sha256: str | None = None
    git_sha1: str | None = None
    md5: str | None = None
    ranges: bool = True
    """Whether parts of it can be read; otherwise reading begins at its first byte."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The files to download. `skipped` are others of the source, `commit` is that of a repository of the Hub."""

    files: tuple[Remote, ...]
    skipped: tuple[str, ...] = ()
    commit: str | None = None


class ModelSource(Protocol):
    """Errors are StorageErrors, or Temporary if another try may succeed."""

    def list(self) -> Listing:
        """The files that an engine needs."""

    def stream(self, file: Remote, start: int, stop: int) -> Iterator[bytes]:
        """Bytes from `start` on, up to `stop`; they may end earlier."""
