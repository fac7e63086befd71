"""The checks of `check`: the cluster, the user's permissions, and the requirements of spec files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from rayllm_ctl.catalog import gpus
from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.lookup.services import find
from rayllm_ctl.cluster.preflight import cluster as prerequisites
from rayllm_ctl.cluster.preflight.versions import kuberay_version, server_version, version_of
from rayllm_ctl.cluster.snapshot.nodes import all_nodes
from rayllm_ctl.errors import UserError
from rayllm_ctl.health.capacity import capacity_check
from rayllm_ctl.health.clusterchecks import node_checks, operator_checks, quota_check
from rayllm_ctl.health.objects.pod_needs import needs, pod_templates
from rayllm_ctl.health.storage.secrets import storage_secrets
from rayllm_ctl.health.storage.uses import claim_uses
from rayllm_ctl.kinds import workload
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.kube.kuberay import asks_for_token
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.text.hint import read_hint
from rayllm_ctl.planner.deployment.ray_token import KnownCluster
from rayllm_ctl.workflows.render.types import Rendering
from rayllm_ctl.workflows.rollout import secrets as gatewaysecrets
from rayllm_ctl.workflows.rollout.manifests import placed
from rayllm_ctl.workflows.rollout.model_storage.checks import check_storage
from rayllm_ctl.workflows.rollout.prerequisites import check_surroundings, check_version, model_bytes
from rayllm_ctl.workflows.setup.rbac import COMMANDS

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

REPEAT_SECONDS = 3.0
"""Seconds between two rounds of checks."""

_COMMANDS = ("deploy", "status", "delete")
"""The commands whose rights are checked."""


def check_cluster(cluster: Cluster, namespace: str) -> Iterator[Check]:
    """Check the prerequisites of services in the cluster, yielding each result.

    Raises UserError if the API server does not answer.
    """
    yield Check("Kubernetes", "API server", True, f"{server_version(cluster)} at {cluster.server}")
    served = prerequisites.served_kinds(cluster, namespace)
    yield served
    operator = prerequisites.operator_objects(cluster)
    if operator is None:
        yield Check("KubeRay", "operator", None, "not permitted to list deployments.apps and pods in all namespaces")
    elif served.ok is not False:
        yield from operator_checks(*operator, namespace, version_of(operator[0]))
    rights = prerequisites.permission_checks(cluster, namespace, {name: COMMANDS[name] for name in _COMMANDS})
    yield from _of_namespace_and_nodes(cluster, namespace, rights)


def check_before_kuberay(cluster: Cluster, namespace: str) -> Iterator[Check]:
    """Check what a cluster needs before KubeRay is installed: the API server, the namespace, quotas and nodes."""
    yield Check("Kubernetes", "API server", True, f"{server_version(cluster)} at {cluster.server}")
    yield from _of_namespace_and_nodes(cluster, namespace)


def _of_namespace_and_nodes(cluster: Cluster, namespace: str, rights: Iterable[Check] = ()) -> Iterator[Check]:
    yield from prerequisites.namespace_checks(cluster, namespace)
    quotas = prerequisites.quotas(cluster, namespace)
    if quotas is None:
        yield Check("namespace", "quotas", None, "not permitted to list resourcequotas")
    elif (used := quota_check(quotas, namespace)) is not None:
        yield used
    yield from rights
    nodes = all_nodes(cluster)
    if nodes is None:
        yield Check("nodes", "ready", None, "not permitted to list nodes and the pods of all namespaces")
    else:
        yield from node_checks(*nodes, gpus.load_gpus().values())


def until_none_fails(
    checks: Callable[[], Iterable[Check]], timeout: float, notify: Callable[[str], None]
) -> list[Check]:
    """All checks, repeated until none fails or `timeout` seconds have passed.

    notify: takes a line for each failure that was not there before.
    """
    deadline = time.monotonic() + timeout
    said: set[str] = set()
    while True:
        found = list(checks())
        failed = [f"waiting for {one.category}: {one.name}: {one.detail}" for one in found if one.ok is False]
        if not failed or time.monotonic() >= deadline:
            return found
        for line in failed:
            if line not in said:
                notify(line)
        said.update(failed)
        time.sleep(min(REPEAT_SECONDS, max(0.0, deadline - time.monotonic())))


def check_service(cluster: Cluster, rendering: Rendering, namespace: str) -> Iterator[Check]:
    """Check the requirements of a rendered service: all problems, whereas `deploy` ends at the first."""
    category = f"service {rendering.name}"
    version = kuberay_version(cluster)
    untokened = ""
    if rendering.decided is not None:
        rendering, untokened = rendering.for_cluster(
            KnownCluster(version or "", _asks_now(cluster, rendering, namespace))
        )
    if untokened:
        yield Check(category, "token authentication", None, untokened)
    _, manifest = workload(rendering.manifests)
    if version is not None:
        yield from _guarded(category, "manifests", lambda: check_version(version, rendering))
    yield from _guarded(category, "objects", lambda: check_surroundings(cluster, rendering, manifest, namespace))
    planned = rendering.plan.deployment if rendering.plan else None
    if planned is not None:
        yield from _guarded(category, "Secrets", lambda: gatewaysecrets.check_secrets(cluster, planned, namespace))
    for one in check_storage(cluster, rendering.manifests, namespace, model_bytes(rendering)):
        yield replace(one, category=category)
    seen = {("PersistentVolumeClaim", use.name) for use in claim_uses(rendering.manifests, None)}
    seen |= {(need.kind, need.name) for need in storage_secrets(rendering.manifests)}
    wanted = [need for need in needs(rendering.manifests) if (need.kind, need.name) not in seen]
    if planned is not None and planned.redis is not None and gatewaysecrets.makes_password(planned):
        made = planned.redis.password.name  # by deploy
        wanted = [need for need in wanted if (need.kind, need.name) != ("Secret", made)]
    yield from prerequisites.need_checks(cluster, namespace, wanted, category)
    templates = {who: pod for manifest in rendering.manifests for who, pod in pod_templates(manifest).items()}
    yield from prerequisites.admission_checks(cluster, namespace, templates, category)
    nodes = all_nodes(cluster)
    if nodes is not None:
        yield _of(category, capacity_check(placed(manifest, namespace), *nodes))


def _asks_now(cluster: Cluster, rendering: Rendering, namespace: str) -> bool | None:
    """Whether the running service requires a token; None if there is no service, or it may not be read."""
    kind, manifest = workload(rendering.manifests)
    try:
        live = find(cluster, kind, manifest["metadata"]["name"], namespace)
    except ForbiddenError:
        return None
    return None if live is None else asks_for_token(live)


def _guarded(category: str, name: str, look: Callable[[], Iterator[Checked]]) -> Iterator[Check]:
    """The checks of `look`, including an error that it raises; one that is ok if there are none."""
    checks: list[Check] = []
    try:
        checks = [_of(category, checked) for checked in look()]
    except UserError as error:
        checks.append(Check(category, name, False, error.message, tuple(map(read_hint, error.hints))))
    yield from checks or [Check(category, name, True)]


def _of(category: str, checked: Checked) -> Check:
    return Check(category, checked.name, checked.ok, checked.detail)
