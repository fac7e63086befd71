"""The form in which Kubernetes' Go types write an object back.

KubeRay reads a RayService into them and writes the whole object, which makes it the owner of all that it spells
otherwise: every later apply would be a conflict (cluster.writeback). The templates lay out that form; this brings what
users wrote into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.quantities import canonical_quantity

_OF_QUANTITIES = ("limits", "requests", "overhead")
_QUANTITIES = ("sizeLimit", "divisor")


def canonical(value: Any, field: str = "", parent: str = "") -> Any:
    """`value` with its quantities as Kubernetes writes them: "1000m" is "1". What is no quantity is left as it is."""
    if isinstance(value, Mapping):
        return {name: canonical(part, name, field) for name, part in value.items()}
    if isinstance(value, list):
        return [canonical(part, "", field) for part in value]
    if (parent in _OF_QUANTITIES or field in _QUANTITIES) and isinstance(value, (str, int, float)):
        try:
            return canonical_quantity(str(value))
        except ValueError:
            return value
    return value
