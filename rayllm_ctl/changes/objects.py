"""The effects of a change of an object next to the service: Services, policies, configuration, Deployments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.changes import outages
from rayllm_ctl.changes.fields import Difference, field_differences, mapping
from rayllm_ctl.changes.labels import named
from rayllm_ctl.changes.rejected import rejected
from rayllm_ctl.changes.serve import Judged
from rayllm_ctl.model.kube.labels import CODE_DIGEST, CODE_VERSION
from rayllm_ctl.model.observed.changes import Consequence, Effect, Explanation, Running

_WITH_TEMPLATE = ("Deployment", "StatefulSet", "DaemonSet")
_OF_FILES = ("ConfigMap", "Secret")
_AT_ONCE = (
    "HTTPRoute", "Ingress", "Job", "NetworkPolicy", "PersistentVolumeClaim", "PodDisruptionBudget", "PodMonitor",
    "Role", "RoleBinding", "Service", "ServiceMonitor",
)  # fmt: skip
"""Kinds without pods that their controllers, or the API server itself, read continuously."""


def explain_object(before: Mapping[str, Any], after: Mapping[str, Any], _running: Running) -> Explanation:
    """The effect of each change, and the consequences."""
    kind = str(after.get("kind") or "")
    judged: list[Judged] = [
        (one, _effect(after, one)) for one in field_differences(before, after) if one.path[0] != "status"
    ]
    refused = rejected(before, after, (one for one, _ in judged))
    if refused is not None:
        # The API server rejects a request as a whole.
        return Explanation(named((one, "rejected") for one, _ in judged), (refused,))
    if kind == "ConfigMap" and CODE_DIGEST in mapping(after, "metadata", "annotations"):
        return _of_code(before, after, judged)
    effects = {effect for _, effect in judged}
    consequences = [Consequence("in-place", message, outage=True) for message in outages.changed(before, after)]
    if "restart" in effects and outages.replicas(after):
        alone = outages.replaces_all(after)
        how = "stops all its pods, then starts new ones" if alone else "replaces its pods step by step"
        consequences.append(Consequence("restart", f"the {kind} {how}", outage=alone))
    if "not-rolled-out" in effects:
        message = "running pods do not change: updateStrategy OnDelete applies a changed template only to new pods"
        consequences.append(Consequence("not-rolled-out", message))
    if "unknown" in effects:
        consequences.append(
            Consequence("unknown", f"the behavior of the controller of {kind or 'the object'} is unknown")
        )
    if judged and not consequences:
        message = "takes effect at once; no pod restarts"
        if kind in _OF_FILES and any(one.path[0] != "metadata" for one, _ in judged):
            message = "mounted files change within a minute or two; a process that has read them keeps the old content"
        consequences.append(Consequence("in-place", message))
    return Explanation(named(judged), tuple(consequences))


def _of_code(before: Mapping[str, Any], after: Mapping[str, Any], judged: list[Judged]) -> Explanation:
    """The effect of changed code of rayllm-ctl. The object that names its digest shows which pods restart."""
    old, new = (mapping(side, "metadata", "annotations") for side in (before, after))
    if old.get(CODE_DIGEST) == new[CODE_DIGEST]:
        message = "equivalent code from another release of rayllm-ctl, or with different comments; nothing restarts"
    else:
        releases = f"that of rayllm-ctl {new.get(CODE_VERSION)} for that of {old.get(CODE_VERSION) or 'an earlier one'}"
        message = f"different code, {releases}; running processes keep the old code"
    return Explanation(named(judged), (Consequence("in-place", message),) if judged else ())


def _effect(after: Mapping[str, Any], found: Difference) -> Effect:
    kind = after.get("kind")
    if found.path[0] in ("metadata", "apiVersion") or kind in (*_OF_FILES, *_AT_ONCE):
        return "in-place"
    if kind not in _WITH_TEMPLATE:
        return "unknown"
    if found.path[:2] != ("spec", "template"):
        return "in-place"
    return "not-rolled-out" if mapping(after, "spec", "updateStrategy").get("type") == "OnDelete" else "restart"
