"""RayServices as KubeRay writes them back.

To add its finalizer, the operator reads a RayService into Go types and updates the whole object: quantities become
canonical ("1000m" -> "1"), empty structs appear (`scaleStrategy: {}`), and the operator becomes the owner of the
rewritten fields; of a list without keys, such as workerGroupSpecs, as a whole. Every later apply of the same manifest
would then be a conflict.
Source: KubeRay v1.6.2, rayservice_controller.go, Reconcile (seen with Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.model.kube.quantities import parse_quantity

_OF_QUANTITIES = ("limits", "requests")
_QUANTITIES = ("sizeLimit", "divisor")

_MOST_SHOWN = 5


def written_back_differences(applied: Mapping[str, Any], live: Mapping[str, Any]) -> list[str]:
    """The fields of a spec whose meaning differs from the applied one, one line each; empty if none."""
    differences = list(_differences(_meaning(applied), _meaning(live), "spec"))
    more = len(differences) - _MOST_SHOWN
    return [*differences[:_MOST_SHOWN], *([f"  and {more} more fields"] if more > 0 else [])]


def _differences(then: Any, now: Any, path: str) -> Iterator[str]:
    if then == now:
        return
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in sorted({*then, *now}):
            yield from _differences(then.get(key), now.get(key), f"{path}.{key}")
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for index, (one, other) in enumerate(zip(then, now, strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif isinstance(then, int) and isinstance(now, int):
        yield f"  {path} is {now}, {then} was applied"
    else:
        # Text is not shown: another client's spec may contain values that belong into a Secret.
        yield f"  {path} {'was removed' if now is None else 'was added' if then is None else 'has another value'}"


def _meaning(value: Any, key: str = "", parent: str = "") -> Any:
    if isinstance(value, Mapping):
        parts = {name: _meaning(inner, name, key) for name, inner in value.items()}
        return {name: inner for name, inner in parts.items() if inner not in (None, {}, [])}
    if isinstance(value, list):
        return [_meaning(inner, "", key) for inner in value]
    if parent in _OF_QUANTITIES or key in _QUANTITIES:
        try:
            return parse_quantity(str(value))
        except ValueError:
            return value
    return value
