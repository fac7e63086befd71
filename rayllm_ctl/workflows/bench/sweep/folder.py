"""The folder of a sweep: its parameters, and a file for each variant, written atomically."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rayllm_ctl.errors import UsageError, not_written
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.bench.sweep import Sweep, Variant, VariantRecord, in_words, is_variant_name
from rayllm_ctl.model.text.yaml_text import flow

_FILE = "sweep.json"
_LEFT = "left.json"
"""File with the variant whose service may still be in a cluster."""

_COMPARED = {"spec": "", "load": "load", "vary": "vary", "templates": "--template-dir"}
"""Parameters that must be the same for every run, with their names in messages."""


@dataclass(frozen=True)
class Left:
    """A service that may be in a cluster. server: the address of its API server, without credentials."""

    variant: str
    namespace: str
    server: str


class Folder:
    """The files of one sweep. id: what marks its services in the cluster."""

    def __init__(self, path: Path, data: Mapping[str, Any], *, new: bool = False) -> None:
        self.path = path
        self._new = data if new else None
        self.id = str(data["id"])
        self.service, self.vary = str(data["service"]), tuple(data["vary"])

    def begin(self, rejected: Iterable[VariantRecord]) -> None:
        """Create the folder if it is new, and write the records of the variants that are not to be deployed."""
        if self._new is not None:
            _write(self.path / _FILE, self._new)
            self._new = None
        for record in rejected:
            self.write(record)

    def read(self, name: str) -> VariantRecord | None:
        """The record of a variant. Raises UsageError for a file that is not from a sweep."""
        data = _read(self.path / f"{name}.json")
        if data is None:
            return None
        try:
            return VariantRecord.from_json(data)
        except (KeyError, TypeError):
            raise _not_ours(self.path / f"{name}.json") from None

    def measured(self, variant: Variant, record: VariantRecord) -> VariantRecord | None:
        """The result of a variant, if there is one. `record`: the expected spec and load."""
        found = self.read(variant.name)
        if found is None or found.state != "measured":
            return None
        differences = [
            line
            for name, old, new in (("", found.spec, record.spec), ("load", found.load, record.load))
            for line in _differences(old, _plain(new), name)
        ]
        if differences:
            raise _other(self.path / f"{variant.name}.json", f"a result of {in_words(variant.values)}", differences)
        return found

    def write(self, record: VariantRecord) -> None:
        """Write the record of a variant."""
        _write(self.path / f"{record.variant}.json", record.to_json())

    @property
    def left_file(self) -> Path:
        """The file with the service that an interrupted sweep may have left."""
        return self.path / _LEFT

    def left(self) -> Left | None:
        """The service that an interrupted sweep may have left. UsageError for a file that is not of a sweep."""
        left = _read(self.left_file)
        if left is None:
            return None
        try:
            return Left(str(left["variant"]), str(left["namespace"]), str(left["server"]))
        except KeyError:
            raise _not_ours(self.left_file) from None

    def note_left(self, left: Left) -> None:
        """Record that a service may be in a cluster from now on."""
        _write(self.left_file, asdict(left))

    def forget_left(self) -> None:
        """Record that the service is gone."""
        self.left_file.unlink(missing_ok=True)

    def sweep(self) -> Sweep:
        """All records of the folder, in the order of the values. Raises UsageError for files that are not results."""
        names = sorted(path.stem for path in self.path.glob("*.json") if is_variant_name(path.stem, self.service))
        records = [record for name in names if (record := self.read(name)) is not None]
        return Sweep(self.service, self.vary, tuple(sorted(records, key=lambda record: _order(record.values))))


def open_folder(path: Path, service: str, parameters: Mapping[str, Any]) -> Folder:
    """The folder of a sweep; `begin` creates it if there is none. Raises UsageError if it belongs to another sweep.

    parameters: of the sweep, by the names in _COMPARED; `spec` is the base of the variants.
    """
    wanted: dict[str, Any] = _plain({"service": service, **parameters})
    found = _read(path / _FILE)
    stored = {"id": secrets.token_hex(4), **wanted} if found is None else found
    if not {"id", *wanted} <= set(stored):
        raise _not_ours(path / _FILE)
    differences = [
        line for name, label in _COMPARED.items() for line in _differences(stored[name], wanted[name], label)
    ]
    if differences:
        raise _other(path, "another sweep", differences)
    return Folder(path, stored, new=found is None)


def read_folder(path: Path) -> Folder:
    """The folder of a sweep. Raises UsageError for any other folder."""
    stored = _read(path / _FILE)
    if stored is None or not {"id", "service", "vary"} <= set(stored):
        raise UsageError(
            f"{path} is not the folder of a sweep: it has no {_FILE}", hint="rayllm-ctl bench sweep --output-dir DIR"
        )
    return Folder(path, stored)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint=f"rm {path}    # to measure it again") from error
    if not isinstance(data, dict):
        raise _not_ours(path)
    return data


def _write(path: Path, data: Mapping[str, Any]) -> None:
    """Write a temporary file, then rename it: readers see the whole file or none."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise not_written(path, error) from error


def _differences(old: Any, new: Any, path: str) -> Iterator[str]:
    """The differences between two documents, by path."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _differences(old.get(key), new.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(*pair, f"{path}[{place}]")
    elif old != new:
        yield f"{path} is {flow(old)} in the folder and {flow(new)} now"


def _other(path: Path, contents: str, differences: list[str]) -> UsageError:
    folder = path if path.suffix != ".json" else path.parent
    return UsageError(
        "\n  ".join([f"{path} contains {contents}, with a different spec or load:", *differences]),
        hint=("--output-dir DIR    # another folder", f"rm -r {folder}    # to measure all of it again"),
    )


def _not_ours(path: Path) -> UsageError:
    return UsageError(f"{path} was not written by rayllm-ctl bench sweep", hint="--output-dir DIR    # another folder")


def _plain(data: Any) -> Any:
    """A value as read back from a file."""
    return json.loads(json.dumps(data))


def _order(values: Mapping[str, Any]) -> list[tuple[int, float, str]]:
    """Sort key: numbers by size, before other values by their text."""
    return [
        (0, value, "") if isinstance(value, (int, float)) else (1, 0.0, json.dumps(value)) for value in values.values()
    ]
