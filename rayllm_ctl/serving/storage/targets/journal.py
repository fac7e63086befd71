"""Which files of an unfinished folder are verified: a line of JSON for each, written after the file is in place."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict
from pathlib import Path

from rayllm_ctl.serving.storage.marker import MarkedFile
from rayllm_ctl.serving.storage.sources.remote import Remote

JOURNAL_NAME = ".rayllm-verified"


class FileJournal:
    """The journal of a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / JOURNAL_NAME
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], MarkedFile] = {}
        self._read()

    def entry(self, file: Remote) -> MarkedFile | None:
        """A file that was verified in this version."""
        return self._known.get((file.name, file.version))

    def add(self, file: Remote, entry: MarkedFile) -> None:
        """Record a file that is in place."""
        line = json.dumps({"name": file.name, "version": file.version, **asdict(entry)})
        with self._lock:
            self._known[file.name, file.version] = entry
            with self._path.open("a", encoding="utf-8") as out:
                out.write(f"\n{line}\n")  # A line that was cut off ends here.
                out.flush()
                os.fsync(out.fileno())

    def _read(self) -> None:
        if not self._path.exists():
            return
        for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                data = json.loads(line)
                entry = MarkedFile(data["bytes"], data["sha256"], data["verified"])
                self._known[data["name"], data["version"]] = entry
            except (ValueError, KeyError, TypeError):
                continue  # empty, or cut off when a process was killed
