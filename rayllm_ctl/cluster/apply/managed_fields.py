"""The applied manifest of a live object, reconstructed from its managedFields.

The API server keeps the fields of each applied manifest in metadata.managedFields, and their values are those of the
object. Source: sigs.k8s.io/structured-merge-diff v6, fieldpath/serialize.go (`f:` a key, `k:` an item by its keys,
`v:` an item of a set, `i:` one by its position, `.` the parent itself).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.kube.labels import MANAGER, RESTARTER


def applied_manifest(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """The manifest that rayllm-ctl applied last for `item`; None if it did not apply the object."""
    sets = _sets(item)
    if not sets:
        return None
    manifest: dict[str, Any] = {}
    for fields in sets:
        manifest |= _owned(item, fields)
    metadata = {key: item["metadata"][key] for key in ("name", "namespace") if key in item["metadata"]}
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        **manifest,
        "metadata": {**metadata, **manifest.get("metadata", {})},
    }


def was_applied(item: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    """Whether rayllm-ctl last applied exactly `manifest` for `item`: no field is missing, and none is added.

    Such a manifest lacks the defaults that the API server adds inside lists, which `applied_manifest` cannot
    distinguish from applied values.
    """
    return _covers(applied_manifest(item), manifest) and all(_lists(manifest, fields) for fields in _sets(item))


def is_applied_by(item: Mapping[str, Any], manager: str) -> bool:
    """Whether a field manager has applied fields of `item` that it has not given up."""
    return any(
        record.get("manager") == manager and record.get("operation") == "Apply" and not record.get("subresource")
        for record in item["metadata"].get("managedFields") or ()
    )


def managers(item: Mapping[str, Any], *path: str) -> list[str]:
    """The other managers of the field of an object at `path`."""
    names = set()
    for record in item["metadata"].get("managedFields") or ():
        fields: Any = record.get("fieldsV1") or {}
        for part in path:
            fields = fields.get(f"f:{part}") if fields is not None else None
        if fields is not None and record.get("manager") not in (MANAGER, RESTARTER):
            names.add(str(record.get("manager")))
    return sorted(names)


def _sets(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        record.get("fieldsV1") or {}
        for record in item["metadata"].get("managedFields") or ()
        if record.get("manager") == MANAGER and record.get("operation") == "Apply" and not record.get("subresource")
    ]


def _covers(value: Any, part: Any) -> bool:
    """Whether `value` has all of `part`."""
    if isinstance(value, Mapping) and isinstance(part, Mapping):
        return all(key in value and _covers(value[key], below) for key, below in part.items())
    if isinstance(value, list) and isinstance(part, list):
        return len(value) == len(part) and all(map(_covers, value, part))
    return bool(value == part)


def _lists(value: Any, fields: Mapping[str, Any]) -> bool:
    """Whether `value` has every field of a set. The keys of an item may be defaults, which it does not have."""
    below = {key: inner for key, inner in fields.items() if key != "."}
    if isinstance(value, Mapping):
        names = ((key.removeprefix("f:"), inner) for key, inner in below.items())
        return all(name in value and _lists(value[name], inner) for name, inner in names)
    if isinstance(value, list):
        places = ((_positions(value, key, lenient=True), inner) for key, inner in below.items())
        return all(positions and all(_lists(value[index], inner) for index in positions) for positions, inner in places)
    return not below


def _owned(value: Any, fields: Mapping[str, Any]) -> Any:
    """The parts of `value` that are in a set of fields; all of it if the set names no parts."""
    below = {key: inner for key, inner in fields.items() if key != "."}
    if not below:
        return value
    if isinstance(value, Mapping):
        names = ((key.removeprefix("f:"), inner) for key, inner in below.items())
        return {name: _owned(value[name], inner) for name, inner in names if name in value}
    if isinstance(value, list):
        members = [(index, inner) for key, inner in below.items() for index in _positions(value, key)]
        return [_owned(value[index], inner) for index, inner in sorted(members, key=lambda member: member[0])]
    return value


def _positions(items: list[Any], key: str, *, lenient: bool = False) -> list[int]:
    """The position of the list item that an entry of a set of fields names. lenient: it may lack some keys."""
    form, _, text = key.partition(":")
    wanted = json.loads(text)
    if form == "k":
        return [
            index for index, item in enumerate(items)
            if isinstance(item, Mapping)
            and all(item[name] == part if name in item else lenient for name, part in wanted.items())
        ]  # fmt: skip
    if form == "i":
        return [wanted] if wanted < len(items) else []
    return [index for index, item in enumerate(items) if item == wanted]
