"""The two sides of an object without secrets and irrelevant fields."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.changes.fields import mapping
from rayllm_ctl.model.kube.content import content

MASK = "***"
"""The mask for a value of a Secret; with a suffix if it changes, as in `kubectl diff`."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's copy of the whole object, data of Secrets included."""

_OF_SECRETS = ("data", "stringData")

Side = dict[str, Any] | None


def comparable(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> tuple[Side, Side]:
    """Both sides (None: absent) in the form for comparison and display."""
    old, new = (_cleaned(side) if side is not None else None for side in (before, after))
    if (new or old or {}).get("kind") == "Secret":
        for part in _OF_SECRETS:
            _mask(old, new, part)
    return old, new


def _cleaned(item: Mapping[str, Any]) -> dict[str, Any]:
    kept = content(item)
    if files := mapping(kept, "binaryData"):
        kept = {**kept, "binaryData": {key: _summary(str(data)) for key, data in files.items()}}
    metadata = kept["metadata"]
    annotations = {key: text for key, text in mapping(metadata, "annotations").items() if key != LAST_APPLIED}
    others = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**kept, "metadata": {**others, "annotations": annotations} if annotations else others}


def _summary(data: str) -> str:
    """A summary of a binary file, with its digest."""
    size = len(data) * 3 // 4 - data.count("=")
    return f"{size:,} bytes, sha256 {hashlib.sha256(data.encode()).hexdigest()[:12]}"


def _mask(old: Side, new: Side, part: str) -> None:
    before, after = (mapping(side, part) for side in (old, new))
    changed = {key for key in before if key in after and before[key] != after[key]}
    for side, values, word in ((old, before, "before"), (new, after, "after")):
        if side is not None and side.get(part) is not None:
            side[part] = {key: f"{MASK} ({word})" if key in changed else MASK for key in values}
