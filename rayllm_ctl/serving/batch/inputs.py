"""The files of the input: which there are, in which order, and how rows name them."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from pyarrow import fs

from rayllm_ctl.serving.batch.failures import BatchError, no_bucket
from rayllm_ctl.serving.batch.parts import Source
from rayllm_ctl.serving.batch.settings import Settings
from rayllm_ctl.serving.batch.storage import Entry, filesystem, storage_errors
from rayllm_ctl.serving.buckets.filesystems import ANONYMOUS, lacks_bucket

INLINE = "prompts"
"""Name of the source that stands for the prompts in the settings."""

_WILDCARD = re.compile(r"[*?\[]")
_COMPRESSED = (".gz", ".bz2", ".zst", ".xz", ".zip", ".lz4")


def sources(settings: Settings) -> list[Source]:
    """The files of the input, sorted by path, with names relative to their common folder. BatchError if none."""
    if settings.input.prompts:
        return [Source(0, INLINE, INLINE, 0, 0)]
    entries: dict[str, Entry] = {}
    for path in settings.input.paths:
        for entry in _expand(path, settings):
            entries[entry.path] = entry
    ordered = [entries[path] for path in sorted(entries)]
    for entry in ordered:
        if entry.path.endswith(_COMPRESSED):
            raise BatchError("WrongFormat", f"{entry.path} is compressed", "decompress it, then submit again")
    names = _names([entry.path for entry in ordered])
    return [Source(i, entry.path, names[i], entry.size, entry.changed) for i, entry in enumerate(ordered)]


def _expand(path: str, settings: Settings) -> list[Entry]:
    """The files of a path: itself, those below a folder, or those that match a glob."""
    filesys, inner = filesystem(path, settings.storage)
    prefix = path.removesuffix(inner)
    with storage_errors(path):
        info = filesys.get_file_info(inner.rstrip("/"))
        if info.type == fs.FileType.File:
            return [_entry(info, prefix)]
        if info.type == fs.FileType.Directory:
            _check_apart(path, settings.output.path)
            found = _files(filesys, inner.rstrip("/"), prefix)
            if not found:
                raise BatchError("NoRows", f"the folder {path} has no files", "check the path")
            return found
        if prefix.startswith(("s3://", "gs://")) and lacks_bucket(filesys, inner):
            raise no_bucket(path)
        wildcard = _WILDCARD.search(inner)
        if wildcard is None:
            raise BatchError(
                "InputMissing",
                f"{path} was not found",
                "check the bucket and the key" if prefix else "check the path, and that the volume is mounted there",
            )
        base = posixpath.dirname(inner[: wildcard.start()])
        pattern = _regex(inner)
        found = [entry for entry in _files(filesys, base, prefix) if pattern.fullmatch(entry.path[len(prefix) :])]
    if not found:
        raise BatchError(
            "InputMissing", f"no file matches {path}", "check the pattern: * does not match a slash, ** does"
        )
    return found


def _files(filesys: Any, folder: str, prefix: str) -> list[Entry]:
    """Files below a folder. Names that start with a dot or underscore are not data, as in Spark and Arrow."""
    infos = filesys.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    hidden = re.compile(r"(^|/)[._]")
    return [
        _entry(info, prefix)
        for info in infos
        if info.type == fs.FileType.File and not hidden.search(info.path[len(folder) :].lstrip("/"))
    ]


def _entry(info: Any, prefix: str) -> Entry:
    return Entry(prefix + info.path.removeprefix(prefix), info.size or 0, info.mtime_ns or 0)


def _check_apart(folder: str, output: str) -> None:
    if f"{output.rstrip('/')}/".startswith(f"{folder.replace(ANONYMOUS, '', 1).rstrip('/')}/"):
        raise BatchError(
            "InvalidSpec",
            f"the output folder {output} is inside the input folder {folder}, so answers would become input",
            "choose another output folder, or give the input as a glob such as folder/*.jsonl",
        )


def _names(paths: list[str]) -> list[str]:
    """Paths relative to the folder that all files have in common."""
    folders = [posixpath.dirname(path).split("/") for path in paths]
    common = 0
    for level in zip(*folders, strict=False):
        if len(set(level)) > 1:
            break
        common += 1
    return ["/".join(path.split("/")[common:]) for path in paths]


def _regex(pattern: str) -> re.Pattern[str]:
    """A glob as a regular expression: `**/` is any folders, `*` and `?` stay within one name."""
    token = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]")
    means = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    out, end = "", 0
    for match in token.finditer(pattern):
        found = match.group()
        out += re.escape(pattern[end : match.start()])
        out += means.get(found) or found.replace("[!", "[^")
        end = match.end()
    return re.compile(out + re.escape(pattern[end:]))
