"""What a target is: a folder or a bucket that keeps verified files, and gets its marker last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from rayllm_ctl.serving.storage.marker import MarkedFile, Marker
from rayllm_ctl.serving.storage.sources.remote import Listing, Remote


class TargetOutput(Protocol):
    """A file that is being written."""

    def write(self, chunk: bytes | bytearray) -> object:
        """Append bytes."""


class Target(Protocol):
    """Errors are StorageErrors, or Temporary if another try may succeed."""

    def locked(self) -> AbstractContextManager[None]:
        """Wait until no other download writes there, if that can be known."""

    def marker(self) -> Marker | None:
        """The marker, if there is one."""

    def remove_marker(self) -> None:
        """Say that the content is not complete."""

    def sizes(self, names: Iterable[str]) -> Mapping[str, int]:
        """The bytes of those files that are there."""

    def stream(self, name: str) -> Iterator[bytes]:
        """The content of a file that is there."""

    def prepare(self, listing: Listing, wrong: Iterable[str]) -> None:
        """Find out what an earlier run has left. The files `wrong` are not used."""

    def free_bytes(self) -> int | None:
        """How much can be written; None if that is not limited."""

    def missing_bytes(self, file: Remote) -> int:
        """How much of a file is still to be written, at most."""

    def existing(self, file: Remote) -> MarkedFile | None:
        """A verified file of an earlier run."""

    def unfinished(self, file: Remote) -> int:
        """The bytes of a file that an earlier run has left, not verified."""

    def stream_unfinished(self, file: Remote) -> Iterator[bytes]:
        """Their content."""

    def writing(self, file: Remote, start: int) -> AbstractContextManager[TargetOutput]:
        """Write a file from a byte on."""

    def discard(self, file: Remote) -> None:
        """Delete what was written of a file."""

    def keep(self, file: Remote, entry: MarkedFile) -> None:
        """Put a verified file in place."""

    def finish(self, marker: Marker) -> None:
        """Put all files in place, then the marker."""
