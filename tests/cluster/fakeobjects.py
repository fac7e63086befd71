"""What an API server does with objects: merging an apply, field paths, selectors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def complete(item: dict[str, Any], old: Mapping[str, Any] | None, version: int) -> dict[str, Any]:
    metadata = dict(item.get("metadata") or {})
    metadata.setdefault("uid", (old or {"metadata": {}})["metadata"].get("uid", f"uid-{version}"))
    metadata |= {"resourceVersion": str(version), "creationTimestamp": "2026-11-21T09:00:00Z"}
    return {**item, "metadata": metadata}


def merge(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{key: merge(old.get(key), value) for key, value in new.items()}}
    return new


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Field paths below spec, data and labels; lists are atoms, as workerGroupSpecs is."""
    if isinstance(value, dict) and value:
        found: dict[str, Any] = {}
        for key, part in value.items():
            if path or key in ("spec", "data"):
                found |= leaves(part, f"{path}.{key}" if path else key)
        return found
    return {path: value} if path else {}


def selected(item: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    labels = item["metadata"].get("labels") or {}
    for term in re.split(r",(?![^(]*\))", query.get("labelSelector", "")):
        one_of = re.fullmatch(r"(\S+) (in|notin) \(([^)]*)\)", term)
        key, equals, value = term.partition("=")
        if one_of:
            if (labels.get(one_of[1]) in one_of[3].split(",")) is (one_of[2] == "notin"):
                return False
        elif term.startswith("!"):
            if term[1:] in labels:
                return False
        elif term and (key not in labels or (equals and labels[key] != value)):
            return False
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        path, operator, value = re.split(r"(!=|=)", term, maxsplit=1)
        found: Any = item
        for part in path.split("."):
            found = (found or {}).get(part)
        if ((found or "") == value) is (operator == "!="):
            return False
    return True


def without_null(item: Any) -> Any:
    """`item` without the fields that a merge patch removed."""
    if not isinstance(item, dict):
        return item
    return {key: without_null(value) for key, value in item.items() if value is not None}


def field_set(applied: Any) -> dict[str, Any]:
    """The fields of what was applied, as managedFields lists them; lists are atoms."""
    return {f"f:{key}": field_set(part) for key, part in applied.items()} if isinstance(applied, dict) else {}


def without_given_up(item: Any, had: Any, wants: Any, others: list[Any]) -> Any:
    """`item` without the fields that a manager had applied and no longer does, and that no other manager has.

    had, wants, others: sets of fields, as managedFields lists them.
    """
    if not isinstance(item, dict):
        return item
    kept = {}
    for key, value in item.items():
        field, owned = f"f:{key}", [other[f"f:{key}"] for other in others if f"f:{key}" in other]
        if field in had and field not in wants and not owned:
            continue
        kept[key] = without_given_up(value, had.get(field, {}), wants.get(field, {}), owned)
    return kept
