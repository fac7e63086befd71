"""Pure checks for manifests that KubeRay's operator rejects although their schemas allow them.

The operator reports it after the object is applied, as an event, and does nothing else. Read from KubeRay v1.6.2 and
v1.7.0, ray-operator/controllers/ray/utils/validation.go. Feature gates of the operator cannot be known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rayllm_ctl.kinds.rules.objects import (
    object_problems,
    raycluster_problems,
    rayjob_problems,
    rayservice_problems,
)
from rayllm_ctl.model.text.problems import Problem

_RULES: Mapping[str, Callable[[Mapping[str, Any], str], Iterator[Problem]]] = {
    "RayService": rayservice_problems,
    "RayCluster": raycluster_problems,
    "RayJob": rayjob_problems,
}


def rule_problems(manifest: Mapping[str, Any], kuberay: str) -> list[Problem]:
    """Problems of a manifest that matches its schema. Paths start at the manifest.

    kuberay: one of model.kube.kuberay_versions.VERSIONS.
    """
    rules = _RULES.get(manifest["kind"])
    return [*object_problems(manifest), *(rules(manifest, kuberay) if rules else ())]
