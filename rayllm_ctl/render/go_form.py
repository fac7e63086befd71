"""The form in which KubeRay's Go types write an object back.

To add its finalizer, KubeRay reads a RayService into them and writes the whole object, which makes it the owner of all
that it spells otherwise: every later apply would be a conflict (cluster.writeback). The templates lay out that form;
this brings what users wrote into it. Structs without `omitempty` appear although they are empty, and what a field that
is not a pointer has when it is not set is left out.
Source: k8s.io/api v0.35 (core/v1/types.go) and KubeRay v1.6.2 (raycluster_types.go).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.kube.kuberay import GROUP_NAME
from rayllm_ctl.model.kube.quantities import canonical_quantity

_AMOUNTS = ("limits", "requests", "overhead")
_QUANTITIES = ("sizeLimit", "divisor")
_MAPS = (*_AMOUNTS, "labels", "annotations", "nodeSelector", "matchLabels", "rayStartParams")
"""Mappings whose keys are the user's."""

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_POINTERS = ("storageClassName",)
"""Strings that differ from "" when they are not set."""

_FALSE = ("hostIPC", "hostNetwork", "hostPID", "readOnly", "setHostnameAsFQDN", "stdin", "stdinOnce", "tty")
_ZERO = ("failureThreshold", "hostPort", "initialDelaySeconds", "periodSeconds", "successThreshold", "timeoutSeconds")
"""Booleans and numbers that are not pointers: false and 0 are not written."""


def go_text(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """`manifest` as it is stored in the end: with canonical quantities and, if KubeRay writes it back, as Go does."""
    ray = str(manifest.get("apiVersion", "")).partition("/")[0] == GROUP_NAME
    return {name: _form(part, name, ray) if name == "spec" else part for name, part in manifest.items()}


def _form(value: Any, field: str, ray: bool) -> Any:
    """`value` of `field`. An item of a list is in the field of the list."""
    if isinstance(value, list):
        return [_form(item, field, ray) for item in value]
    if isinstance(value, Mapping):
        if field in _MAPS:
            return {name: _quantity(part) if field in _AMOUNTS else part for name, part in value.items()}
        parts = {name: _form(part, name, ray) for name, part in value.items()}
        return _filled({name: part for name, part in parts.items() if not _unset(name, part)}, field) if ray else parts
    return _quantity(value) if field in _QUANTITIES else value


def _unset(field: str, value: Any) -> bool:
    """Whether Go leaves the field out with this value."""
    if value is False:
        return field in _FALSE
    if value == 0 and isinstance(value, int):
        return field in _ZERO
    return value in (None, []) or (value == "" and field not in _POINTERS) or (value == {} and field in _MAPS)


def _filled(struct: dict[str, Any], field: str) -> dict[str, Any]:
    """`struct` with those of its structs that are always written."""
    if field in _CONTAINERS:
        return {**struct, "resources": struct.get("resources", {})}
    if field == "template":
        return {**struct, "metadata": struct.get("metadata", {})}
    if field == "workerGroupSpecs":
        return {**struct, "scaleStrategy": struct.get("scaleStrategy", {})}
    return struct


def _quantity(value: Any) -> Any:
    """The quantity as Kubernetes writes it ("1000m" is "1"); what is none is left for the schema to reject."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return value
    try:
        return canonical_quantity(str(value))
    except ValueError:
        return value
