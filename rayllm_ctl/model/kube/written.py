"""When an object was written: all that a diagnosis reads of metadata.managedFields, a third of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OF = frozenset({"RayService", "RayCluster", "RayJob"})
"""Kinds whose changes somebody may have to look at."""

_KEPT = ("time", "subresource")
_WRITER = ("manager", "operation", *_KEPT)


def keep_times(item: dict[str, Any]) -> dict[str, Any]:
    """The object, whose managedFields say when it was written and no more; of other kinds than Ray's they are gone."""
    records = item["metadata"].pop("managedFields", None)
    times = written(records) if item.get("kind") in _OF else []
    if times:
        item["metadata"]["managedFields"] = times
    return item


def keep_writers(item: dict[str, Any]) -> dict[str, Any]:
    """The object, whose managedFields say who wrote it when and in which way, but not what."""
    records = item["metadata"].pop("managedFields", None)
    found = [
        {key: record[key] for key in _WRITER if isinstance(record.get(key), str)}
        for record in (records if isinstance(records, list) else ())
        if isinstance(record, Mapping)
    ]
    if found:
        item["metadata"]["managedFields"] = found
    return item


def written(records: Any) -> list[dict[str, str]]:
    """managedFields without managers and fields; an empty list where they have no time."""
    return [
        {key: record[key] for key in _KEPT if isinstance(record.get(key), str)}
        for record in (records if isinstance(records, list) else ())
        if isinstance(record, Mapping) and "time" in record
    ]
