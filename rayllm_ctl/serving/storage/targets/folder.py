"""A folder of a volume.

Files are written in `<folder>.partial`, which takes the folder's name when all are there; in a folder inside it if the
folder is a mount point. An unfinished file is a part whose name is made of its name and version: what is in it is a
beginning of that content, and trusted only once the checksum of the whole is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rayllm_ctl.serving.storage import marker
from rayllm_ctl.serving.storage.events import say_event
from rayllm_ctl.serving.storage.failures import of_volume
from rayllm_ctl.serving.storage.marker import MarkedFile, Marker
from rayllm_ctl.serving.storage.sources.remote import Listing, Remote
from rayllm_ctl.serving.storage.targets import journal
from rayllm_ctl.serving.storage.targets.locks import locked
from rayllm_ctl.serving.storage.targets.output import FileOutput, sync_folder, write_file
from rayllm_ctl.serving.storage.verification import Checker

_PARTS = ".rayllm-parts"
_INSIDE = ".rayllm-partial"
_READ_BYTES = 4 << 20
_TELL_SECONDS = 30.0


class FolderTarget:
    """The folder of a model."""

    def __init__(self, path: str) -> None:
        self._root = Path(path)
        mounted = self._root.is_mount()
        self._work = self._root / _INSIDE if mounted else self._root.with_name(f"{self._root.name}.partial")
        self._old: Marker | None = None
        self._wrong: frozenset[str] = frozenset()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock. Without locks, write in a folder that is this pod's own."""
        with volume_errors(str(self._root)):
            self._work.parent.mkdir(parents=True, exist_ok=True)
            with locked(self._work.with_name(f"{self._work.name}.lock"), _Waiting(self._root)) as held:
                if not held:
                    self._work = self._work.with_name(f"{self._work.name}-{socket.gethostname()}")
                yield

    def marker(self) -> Marker | None:
        """The folder's marker."""
        try:
            return marker.parse_marker((self._root / marker.MARKER_NAME).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def remove_marker(self) -> None:
        """Delete it, for good."""
        (self._root / marker.MARKER_NAME).unlink(missing_ok=True)
        sync_folder(self._root)

    def sizes(self, names: Iterable[str]) -> Mapping[str, int]:
        """The bytes of the files of the folder."""
        return {name: size for name in names if (size := _size(self._root / name)) is not None}

    def stream(self, name: str) -> Iterator[bytes]:
        """The content of a file of the folder."""
        return _chunks(self._root / name)

    def prepare(self, listing: Listing, wrong: Iterable[str]) -> None:
        """Read what earlier runs have left, and delete parts of other versions."""
        self._wrong = frozenset(wrong)
        self._old = self._old or self.marker()
        (self._work / _PARTS).mkdir(parents=True, exist_ok=True)
        self._inside = journal.FileJournal(self._work)
        self._before = journal.FileJournal(self._root)
        expected = {self._part(file).name for file in listing.files}
        for part in (self._work / _PARTS).iterdir():
            if part.name not in expected:
                part.unlink()

    def free_bytes(self) -> int:
        """Free space of the volume."""
        return shutil.disk_usage(self._work).free

    def missing_bytes(self, file: Remote) -> int:
        """How much of a file is still to be written."""
        if _size(self._work / file.name) == file.size:
            return 0
        in_place = _size(self._root / file.name) == file.size and file.name not in self._wrong
        if in_place and (self._old is None or self._before.entry(file) or self._trusted(file, self._root)):
            return 0
        return max(0, file.size - self.unfinished(file))

    def existing(self, file: Remote) -> MarkedFile | None:
        """A file that is in place: recorded as verified, or verified now."""
        for folder, known in ((self._work, self._inside), (self._root, self._before)):
            if _size(folder / file.name) != file.size or (folder == self._root and file.name in self._wrong):
                continue
            entry = known.entry(file) or self._trusted(file, folder) or self._checked(file, folder / file.name)
            if entry is not None:
                return entry
            if folder == self._work:
                (folder / file.name).unlink()
        return None

    def _trusted(self, file: Remote, folder: Path) -> MarkedFile | None:
        """A file of the folder whose marker has the checksum that the source has."""
        entry = self._old.files.get(file.name) if self._old and folder == self._root else None
        return entry if entry and file.sha256 and entry.sha256 == file.sha256 else None

    def _checked(self, file: Remote, path: Path) -> MarkedFile | None:
        """A file whose content is that of the source. Without a checksum of the source, that cannot be known."""
        if not (file.sha256 or file.git_sha1 or file.md5):
            return None
        checker = Checker(file)
        for chunk in _chunks(path):
            checker.update(chunk)
        verdict = checker.verdict()
        return None if verdict.wrong else verdict.entry

    def unfinished(self, file: Remote) -> int:
        """The bytes of its part."""
        return min(_size(self._part(file)) or 0, file.size)

    def stream_unfinished(self, file: Remote) -> Iterator[bytes]:
        """The content of its part."""
        return _chunks(self._part(file), file.size) if self.unfinished(file) else iter(())

    @contextlib.contextmanager
    def writing(self, file: Remote, start: int) -> Iterator[FileOutput]:
        """Append to its part."""
        with FileOutput(self._part(file), start) as out:
            yield out

    def discard(self, file: Remote) -> None:
        """Delete its part."""
        self._part(file).unlink(missing_ok=True)

    def keep(self, file: Remote, entry: MarkedFile) -> None:
        """Give a part its name, and record it."""
        path = self._work / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._part(file).replace(path)
        sync_folder(path.parent)
        self._inside.add(file, entry)

    def finish(self, marker_: Marker) -> None:
        """Put the files in place, then the marker; then delete what is of other versions."""
        shutil.rmtree(self._work / _PARTS)
        try:
            self._work.rename(self._root)
        except OSError:
            self._move_into_root()
        sync_folder(self._root.parent)
        obsolete = set(self._old.files if self._old else ()) - set(marker_.files)
        for name in obsolete:
            (self._root / name).unlink(missing_ok=True)
        write_file(self._root / marker.MARKER_NAME, marker_.text().encode())
        (self._root / journal.JOURNAL_NAME).unlink(missing_ok=True)

    def _move_into_root(self) -> None:
        """Move every file into a folder that has others, or is a mount point."""
        self._root.mkdir(exist_ok=True)
        self.remove_marker()
        for path in sorted(self._work.rglob("*")):
            if path.is_file() and path.name != journal.JOURNAL_NAME:
                to = self._root / path.relative_to(self._work)
                to.parent.mkdir(parents=True, exist_ok=True)
                path.replace(to)
                sync_folder(to.parent)
        if (self._work / journal.JOURNAL_NAME).exists():
            (self._work / journal.JOURNAL_NAME).replace(self._root / journal.JOURNAL_NAME)
        shutil.rmtree(self._work)

    def _part(self, file: Remote) -> Path:
        key = hashlib.sha256(f"{file.name}\0{file.version}".encode()).hexdigest()[:32]
        return self._work / _PARTS / key


class _Waiting:
    """Says now and then that another download holds the lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next = 0.0

    def __call__(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _TELL_SECONDS
            say_event({"event": "waiting", "folder": str(self._folder), "why": "another download writes this folder"})


@contextlib.contextmanager
def volume_errors(what: str) -> Iterator[None]:
    """Turn errors of a volume into StorageErrors."""
    try:
        yield
    except OSError as error:
        raise of_volume(error, what) from error


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def _chunks(path: Path, limit: int | None = None) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        left = file.seek(0, os.SEEK_END) if limit is None else limit
        file.seek(0)
        while left and (chunk := file.read(min(_READ_BYTES, left))):
            left -= len(chunk)
            yield chunk
