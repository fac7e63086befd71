"""The registry of workload kinds, with one module per kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rayllm_ctl.kinds.raycluster import RAY_CLUSTER
from rayllm_ctl.kinds.rayservice import RAY_SERVICE
from rayllm_ctl.model.workload import WorkloadKind

__all__ = ["RAY_CLUSTER", "RAY_SERVICE", "WORKLOADS", "workload"]

WORKLOADS: Mapping[str, WorkloadKind] = {kind.name: kind for kind in (RAY_SERVICE, RAY_CLUSTER)}
"""The kinds by name, as in a manifest's `kind`. Where objects of several have a service's name, the first one is it."""


def workload(manifests: Sequence[Mapping[str, Any]]) -> tuple[WorkloadKind, Mapping[str, Any]]:
    """The manifest that runs the service, and its kind. ValueError if there is none."""
    for manifest in manifests:
        if manifest["kind"] in WORKLOADS:
            return WORKLOADS[manifest["kind"]], manifest
    raise ValueError(f"no manifest is one of {', '.join(WORKLOADS)}")
