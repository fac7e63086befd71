"""RayServices as KubeRay writes them back.

To add its finalizer, the operator reads a RayService into Go types and updates the whole object: quantities become
canonical ("1000m" -> "1"), empty structs appear (`scaleStrategy: {}`), and by that the operator owns what it rewrote; a
list without keys, as workerGroupSpecs is, as a whole. Every later apply of the same manifest would then be a conflict.
Source: KubeRay v1.6.2, rayservice_controller.go, Reconcile (seen with Kubernetes 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.quantities import parse_quantity

OPERATOR = "kuberay-operator"
"""The operator's field manager: the first part of the user agent that its main.go sets."""

_OF_QUANTITIES = ("limits", "requests")
_QUANTITIES = ("sizeLimit", "divisor")


def same_meaning(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two objects differ in nothing but how KubeRay's Go types would write them."""
    return bool(_meaning(one) == _meaning(other))


def _meaning(value: Any, key: str = "", parent: str = "") -> Any:
    if isinstance(value, Mapping):
        parts = {name: _meaning(part, name, key) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part not in (None, {}, [])}
    if isinstance(value, list):
        return [_meaning(part, "", key) for part in value]
    if parent in _OF_QUANTITIES or key in _QUANTITIES:
        try:
            return parse_quantity(str(value))
        except ValueError:
            return value
    return value
