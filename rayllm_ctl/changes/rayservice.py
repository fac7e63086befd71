"""KubeRay's handling of a changed RayService.

Read in KubeRay 1.6.2, ray-operator/controllers/ray/rayservice_controller.go (shouldPrepareNewCluster,
shouldUpdateCluster, Reconcile). Fields of rayClusterConfig that count for a hash start a second RayCluster. While it
starts, the first one is not touched: neither serveConfigV2 nor another change reaches it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.changes import serve
from rayllm_ctl.changes.clusterhash import HashPart, part_of, version
from rayllm_ctl.changes.fields import Difference, field_differences, mapping
from rayllm_ctl.changes.groups import stopped_groups, suspension
from rayllm_ctl.changes.labels import named
from rayllm_ctl.changes.serve import Judged
from rayllm_ctl.model.kube.cluster_spec import CLUSTER_FIELDS
from rayllm_ctl.model.kube.kuberay import is_suspended
from rayllm_ctl.model.observed.changes import Consequence, Effect, Explanation, Running
from rayllm_ctl.model.spec.ray_options import INCREMENTAL
from rayllm_ctl.model.text.hint import Hint
from rayllm_ctl.serveconfig.applied import FIELD as _FILE
from rayllm_ctl.serveconfig.applied import applied_config_if_readable, config_text

_CONFIG = CLUSTER_FIELDS["RayService"]
_INCREMENTAL_BY_DEFAULT = (1, 7)
"""The version of KubeRay from which the feature gate of incremental upgrades is on by default."""

_AT_THE_SWITCH = frozenset({"serveService"})
"""Fields that KubeRay reads only when another RayCluster takes over."""

_SAME_CLUSTER: Mapping[HashPart, Effect] = {
    "bounds": "bounds", "placement": "not-rolled-out", "appended": "in-place", "suspend": "in-place",
    "ignored": "in-place",
}  # fmt: skip


def explain_rayservice(before: Mapping[str, Any], after: Mapping[str, Any], running: Running) -> Explanation:
    """The effect of each change of a RayService, and the consequences."""
    old, new = mapping(before, "spec"), mapping(after, "spec")
    old_config, new_config = mapping(old, _CONFIG), mapping(new, _CONFIG)
    of_cluster = [
        (one, part_of(one, old_config, new_config, running.kuberay))
        for one in field_differences(old_config, new_config)
    ]
    parts = {part for _, part in of_cluster}
    strategy = str(mapping(new, "upgradeStrategy").get("type") or "NewCluster")
    replaced = "hash" in parts and strategy != "None"

    file = _serve_changes(before, after, running)
    outside = [one for one in field_differences(_without(before), _without(after)) if one.path[0] != "status"]
    judged: list[Judged] = [(one, _outside(one)) for one in outside]
    pending = running.clusters[1] if len(running.clusters) > 1 else ""
    elsewhere = replaced or bool(pending)
    judged += [(_below(one, _FILE), "with-new-cluster" if elsewhere else effect) for one, effect in file[0]]
    judged += [(_below(one, _CONFIG), _of_cluster(part, parts, replaced)) for one, part in of_cluster]

    consequences = [] if elsewhere else file[1]
    if file[0] and pending and not replaced:
        consequences.append(_upgrading(pending))
    if replaced:
        code = any(_is_pod_code(one) for one, _ in of_cluster)
        consequences += [_new_cluster(strategy, running, code), *_renamed(before, after)]
    elif "hash" in parts:
        consequences.append(_held_back(running))
    held_back = _strategy_changed(old, new)
    effects = {effect for _, effect in judged}
    stopped = stopped_groups(old_config, new_config) if "bounds" in parts else []
    consequences += _same_cluster(effects, parts, replaced, running, stopped, maybe_replaced=bool(held_back))
    if ("suspend" in parts and not replaced) or any(one.path == ("spec", "suspend") for one in outside):
        consequences.append(suspension(is_suspended(after), running.clusters))
    consequences += held_back
    if judged and not consequences:
        consequences.append(Consequence("in-place", "no pod and no replica restarts"))
    return Explanation(named(judged), tuple(consequences))


def _serve_changes(
    before: Mapping[str, Any], after: Mapping[str, Any], running: Running
) -> tuple[list[Judged], list[Consequence]]:
    texts = (config_text(before), config_text(after))
    if texts[0] == texts[1]:
        return [], []
    files = [applied_config_if_readable(side) for side in (before, after)]
    if files[0] is None or files[1] is None:
        unread = Difference((), texts[0], texts[1])
        message = "serveConfigV2 is not valid YAML: the replicas that Serve would restart are unknown"
        return [(unread, "restart")], [Consequence("restart", message, outage=True)]
    judged, consequences = serve.explain_serve(files[0], files[1], running)
    if not judged:
        return [(Difference((), "", "(another layout)"), "in-place")], []
    return judged, consequences


def _renamed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Consequence]:
    files = [applied_config_if_readable(side) for side in (before, after)]
    return serve.renamed(files[0] or {}, files[1] or {}, "with-new-cluster")


def _without(item: Mapping[str, Any]) -> dict[str, Any]:
    """The object without the parts that are compared separately."""
    spec = {key: value for key, value in mapping(item, "spec").items() if key not in (_CONFIG, _FILE)}
    return {**item, "spec": spec}


def _below(found: Difference, field: str) -> Difference:
    return Difference(("spec", field, *found.path), found.old, found.new)


def _outside(found: Difference) -> Effect:
    """A change of the object outside rayClusterConfig and serveConfigV2."""
    return "not-rolled-out" if found.path[:1] == ("spec",) and found.path[1] in _AT_THE_SWITCH else "in-place"


def _of_cluster(part: HashPart, parts: set[HashPart], replaced: bool) -> Effect:
    if replaced:
        return "new-cluster" if part == "hash" else "with-new-cluster"
    if part == "hash" or ("hash" in parts and part == "appended"):
        return "not-rolled-out"
    if part == "bounds" and "appended" in parts and "hash" not in parts:
        return "in-place"  # KubeRay writes the whole spec to the RayCluster then
    return _SAME_CLUSTER[part]


def _is_pod_code(found: Difference) -> bool:
    """Whether pods mount different code of rayllm-ctl than before."""
    return found.path[-4:] == ("volumes", "[serving]", "configMap", "name")


def _new_cluster(strategy: str, running: Running, code: bool) -> Consequence:
    live = running.clusters[0] if running.clusters else "the running one"
    unless = None
    if strategy == INCREMENTAL and version(running.kuberay) < _INCREMENTAL_BY_DEFAULT:
        unless = "KubeRay's feature gate RayServiceIncrementalUpgrade is off"
    if not running.clusters:
        message = "KubeRay starts a new RayCluster; a running one serves until the new one does, and is then deleted"
    elif not running.serves:
        message = f"KubeRay replaces {live}, which does not serve, with another RayCluster"
    elif strategy == INCREMENTAL:
        message = f"KubeRay starts a second RayCluster and moves traffic to it in steps; {live} is deleted at the end"
        if unless:
            message += " (nothing is rolled out where its feature gate RayServiceIncrementalUpgrade is off)"
    else:
        message = f"KubeRay starts a second RayCluster; {live} serves until the new one does, and is then deleted"
    if len(running.clusters) > 1:
        message += f". An upgrade is in progress: {running.clusters[1]}, which has not taken over yet, is replaced too"
    if code:
        message += ". The code of models and proxies changes to that of this version of rayllm-ctl"
    return Consequence("new-cluster", message, unless=unless)


def _upgrading(pending: str) -> Consequence:
    return Consequence(
        "with-new-cluster",
        f"an upgrade is in progress: KubeRay sends serveConfigV2 to {pending}, which takes over next",
    )


def _held_back(running: Running) -> Consequence:
    live = running.clusters[0] if running.clusters else "the running RayCluster"
    return Consequence(
        "not-rolled-out",
        f"spec.upgradeStrategy.type is None: KubeRay leaves {live} as it is",
        hints=(Hint("spec.upgrade.strategy: NewCluster", "a second RayCluster takes the change over"),),
    )


def _same_cluster(
    effects: set[Effect],
    parts: set[HashPart],
    replaced: bool,
    running: Running,
    stopped: list[str],
    *,
    maybe_replaced: bool,
) -> Iterator[Consequence]:
    if replaced:
        return
    live, stays = (running.clusters[0], running.clusters[-1]) if running.clusters else ("the live RayCluster",) * 2
    if "bounds" in effects:
        none = f"; without workers in group {', '.join(stopped)} its replicas are unavailable" if stopped else ""
        yield Consequence(
            "bounds",
            f"KubeRay does not propagate replica bounds to {stays}: rayllm-ctl deploy writes them there, "
            f"kubectl apply, Argo CD and Flux do not{none}",
            outage=bool(stopped),
            unless="changes that were held back start another RayCluster" if maybe_replaced else None,
        )
    if "appended" in parts and "hash" not in parts:
        yield Consequence("in-place", f"KubeRay adds the worker group to {live}; no pod restarts")
    if "placement" in parts:
        late = "keeps the old ones until another change replaces the cluster"
        if "appended" in parts and "hash" not in parts:
            late = "gets the new ones with the worker group, for pods that are created later"
        yield Consequence("not-rolled-out", f"KubeRay ignores tolerations when it compares: {live} {late}")


def _strategy_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Consequence]:
    before, after = (mapping(side, "upgradeStrategy").get("type") for side in (old, new))
    if before != "None" or after == "None":
        return []
    message = "changes that upgradeStrategy None has held back are rolled out now, if any"
    return [Consequence("new-cluster", message, unless="upgradeStrategy None has held no change back")]
