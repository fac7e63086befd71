"""Ray's token by default: left out where KubeRay does not support it, and where the running service has none.

A service that runs without a token keeps doing so: with one, KubeRay would start a second RayCluster beside the first,
with as many GPUs again, for a change that nobody made.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rayllm_ctl.model.kube.releases import TOKEN_KUBERAY, is_older
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.ray_options import Authentication
from rayllm_ctl.model.spec.service import LLMService

if TYPE_CHECKING:
    from rayllm_ctl.workflows.render.types import Rendering

Object = Mapping[str, Any]

_FIELD = "authOptions"
_CONFIGS = {"RayService": ("rayClusterConfig",), "RayCluster": (), "RayJob": ("rayClusterSpec",)}
"""Where the spec of a RayCluster stands below `spec`, by kind."""


def unsaid(source: LLMService | BatchJob) -> bool:
    """Whether a spec file says nothing of Ray's token, in its field or in a patch."""
    return source.ray.authentication == Authentication() and _FIELD not in repr(source.patches)


def asks_by_default(source: LLMService | BatchJob, manifests: Iterable[Object]) -> bool:
    """Whether Ray asks for a token in `manifests` although the spec file says nothing of it."""
    return unsaid(source) and any(_asks(item) for item in manifests)


def lacking(kuberay: str) -> str:
    """Why a version of KubeRay gets no token by default; empty where it supports it, or is unknown."""
    if not is_older(kuberay, TOKEN_KUBERAY):
        return ""
    return (
        f"off: KubeRay {kuberay} does not support it (requires 1.5.1); whoever can connect to Ray's ports can run code "
        "in the pods"
    )


def fitted(one: Rendering, kuberay: str, live: Object | None) -> tuple[Rendering, str]:
    """`one` for a cluster with this version of KubeRay (empty: unknown), and why it asks for no token now; else ''.

    live: the object of the service, if there is one.
    """
    if not one.token_by_default:
        return one, ""
    why = lacking(kuberay)
    if not why and live is not None and not _asks(live):
        why = "off, as in the running service; spec.ray.authentication.mode: token turns it on in a new RayCluster"
    if not why:
        return one, ""
    plan = plan_without_token(one.plan) if one.plan is not None else None
    return replace(one, manifests=without_token(one.manifests), plan=plan, token_by_default=False), why


def plan_without_token(plan: Plan) -> Plan:
    """`plan` with a RayCluster that asks for no token."""
    deployment = plan.deployment
    if deployment is None:
        return plan
    authentication = replace(deployment.ray.authentication, mode="none")
    return replace(plan, deployment=replace(deployment, ray=replace(deployment.ray, authentication=authentication)))


def without_token(manifests: Iterable[Object]) -> tuple[dict[str, Any], ...]:
    """The manifests with RayClusters that ask for no token."""
    return tuple(_without(item) for item in manifests)


def _without(manifest: Object) -> dict[str, Any]:
    if not _asks(manifest):
        return dict(manifest)
    changed = copy.deepcopy(dict(manifest))
    del _cluster_spec(changed)[_FIELD]
    return changed


def _asks(manifest: Object) -> bool:
    return manifest.get("kind") in _CONFIGS and (_cluster_spec(manifest).get(_FIELD) or {}).get("mode") == "token"


def _cluster_spec(manifest: Object) -> Any:
    """The spec of the RayCluster in an object; empty where it has none."""
    found = manifest.get("spec") or {}
    for part in _CONFIGS[manifest["kind"]]:
        found = found.get(part) or {}
    return found
