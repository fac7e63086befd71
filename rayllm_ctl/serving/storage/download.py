"""The download of a model: every file is fetched, verified and put in place, then the marker is written."""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial

from rayllm_ctl.serving.storage import marker, transfer
from rayllm_ctl.serving.storage.events import DownloadProgress, note, say_event
from rayllm_ctl.serving.storage.failures import Stopped, StorageError, Temporary, no_space, of_volume
from rayllm_ctl.serving.storage.marker import MarkedFile, Marker
from rayllm_ctl.serving.storage.places import open_source, open_target
from rayllm_ctl.serving.storage.settings import StorageSettings
from rayllm_ctl.serving.storage.sources.remote import Listing, Remote
from rayllm_ctl.serving.storage.targets.target import Target
from rayllm_ctl.serving.storage.transfer import Retries, SourceReader, retried
from rayllm_ctl.serving.storage.verification import Checker

_TRIES = 2
"""How often a file is fetched whose content is wrong."""


def download(settings: StorageSettings, *, verify: bool = False) -> None:
    """Make the target complete; `verify`: also read what is complete. StorageError if that fails."""
    with DownloadProgress() as progress, _volume_errors(settings.target):
        target = open_target(settings)
        with target.locked():
            found = retried(target.marker)
            wrong = _wrong_files(found, settings, target, verify, progress)
            if found is not None and not marker.other_source(found, settings):
                if not wrong:
                    _say_done(progress, found)
                    return
                retried(target.remove_marker)  # It does not hold any more.
            made = _fill(settings, target, wrong, progress)
    _say_done(progress, made)


def _wrong_files(
    found: Marker | None, settings: StorageSettings, target: Target, verify: bool, progress: DownloadProgress
) -> tuple[str, ...]:
    """The files of a marked target that are missing, of a wrong size or, with `verify`, of other content."""
    if found is None or marker.other_source(found, settings):
        return ()
    wrong = marker.wrong_sizes(found, retried(lambda: target.sizes(found.files)))
    if verify:
        progress.expect(found.bytes, len(found.files))
        progress.to("verifying")
        for name, entry in found.files.items():
            if name not in wrong and retried(partial(_sha256, target, name, progress)) != entry.sha256:
                wrong[name] = f"{name} is corrupted: its sha256 is not that of the marker"
            progress.finish_file()
    for problem in wrong.values():
        note(f"{problem}; it is downloaded again")
    return tuple(wrong)


def _sha256(target: Target, name: str, progress: DownloadProgress) -> str:
    found = hashlib.sha256()
    for chunk in target.stream(name):
        found.update(chunk)
        progress.keep(len(chunk))
    return found.hexdigest()


def _fill(settings: StorageSettings, target: Target, wrong: tuple[str, ...], progress: DownloadProgress) -> Marker:
    progress.to("listing")
    source = open_source(settings)
    listing = retried(source.list)
    if listing.skipped:
        note(f"not downloaded, as engines use the other files: {', '.join(listing.skipped)}")
    retried(lambda: target.prepare(listing, wrong))
    _check_space(listing, target, settings)
    progress.expect(sum(file.size for file in listing.files), len(listing.files))
    progress.to("fetching")
    with SourceReader(source, progress) as reader:
        files = _fetch_all(listing, reader, target, progress)
    progress.to("verifying")
    made = Marker(
        marker.source_of(settings),
        settings.revision,
        listing.commit,
        files,
        datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    retried(lambda: target.finish(made))
    return made


def _check_space(listing: Listing, target: Target, settings: StorageSettings) -> None:
    free = target.free_bytes()
    missing = sum(target.missing_bytes(file) for file in listing.files)
    if free is not None and missing > free:
        raise no_space(settings.target, f"{missing} bytes are needed, and {free} are free")


def _fetch_all(
    listing: Listing, reader: SourceReader, target: Target, progress: DownloadProgress
) -> dict[str, MarkedFile]:
    """All files, several at once, the largest first: so the last one ends soon after the others."""
    largest_first = sorted(listing.files, key=lambda file: -file.size)
    with ThreadPoolExecutor(transfer.FILES, thread_name_prefix="file") as pool:
        fetches = {pool.submit(_fetch, file, reader, target, progress): file for file in largest_first}
        done, _ = concurrent.futures.wait(fetches, return_when=concurrent.futures.FIRST_EXCEPTION)
        failures = [error for fetch in done if (error := fetch.exception())]
        if failures:
            reader.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise next((error for error in failures if not isinstance(error, Stopped)), failures[0])
        return {file.name: fetch.result() for fetch, file in fetches.items()}


def _fetch(file: Remote, reader: SourceReader, target: Target, progress: DownloadProgress) -> MarkedFile:
    """One file, as it is in its place."""
    reader.check()
    entry = retried(lambda: target.existing(file))
    if entry is not None:
        progress.keep(file.size)
        progress.finish_file()
        return entry
    retries, wrong = Retries(), 0
    while True:
        started = target.unfinished(file)
        checker, count = Checker(file), _Count()
        try:
            for chunk in target.stream_unfinished(file):
                reader.check()
                checker.update(chunk)
                progress.keep(len(chunk))
            with target.writing(file, started) as out:
                for received in reader.chunks(file, started):
                    count.bytes += len(received)
                    checker.update(received)
                    out.write(received)
            verdict = checker.verdict()
            if verdict.wrong is None:
                target.keep(file, verdict.entry)
                progress.finish_file()
                return verdict.entry
        except Temporary as error:  # of the target: what was written may be lost
            progress.discard(started + count.bytes, started)
            retries.wait(error)
            continue
        target.discard(file)
        progress.discard(started + count.bytes, started)
        wrong += not started  # What an earlier run has left says nothing about the source.
        if wrong == _TRIES:
            raise StorageError(
                "DownloadCorrupt",
                f"{file.name} is corrupted at its source: {verdict.wrong}",
                "check the file at its source; if that is right, delete the failed Job and deploy again",
            )
        note(f"{file.name}: {verdict.wrong}; it is downloaded again")


class _Count:
    """Bytes of one try."""

    bytes = 0


def _say_done(progress: DownloadProgress, found: Marker) -> None:
    say_event(
        {
            "event": "done",
            "bytes": found.bytes,
            "files": len(found.files),
            "fetched": progress.fetched,
            "seconds": round(progress.elapsed, 1),
            "commit": found.commit,
        }
    )


@contextlib.contextmanager
def _volume_errors(target: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise of_volume(error, target) from error
