"""The unified diff of objects as YAML, with the file names of `kubectl diff`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.observed.changes import Diff, ObjectDiff
from rayllm_ctl.model.text.yaml_text import dump


def file_name(item: ObjectDiff) -> str:
    """The file of an object: group, version, kind, namespace and name, as kubectl joins them."""
    group, _, version = item.api_version.rpartition("/")
    return ".".join([*([group] if group else []), version, item.kind, item.namespace, item.name])


def unified_text(side: Mapping[str, Any] | None) -> str:
    """One side as canonical YAML; empty if the object is absent."""
    return "" if side is None else dump(side)


def unified(diff: Diff, item: ObjectDiff) -> str:
    """The unified diff of one object, with three lines of context; empty if both sides are the same."""
    old, new = (f"{side}/{file_name(item)}" for side in diff.sides)
    lines = difflib.unified_diff(
        unified_text(item.before).splitlines(), unified_text(item.after).splitlines(), old, new, lineterm="", n=3
    )
    body = "\n".join(lines)
    return f"diff -u -N {old} {new}\n{body}\n" if body else ""
