"""The diagnosis rules in the order in which they are asked: root causes first.

A pod has one root cause at most: the first step of its life that fails. A cluster is asked in the same spirit: a cause
of an earlier stage explains what a later one would say, so that later stages are asked only while nothing was found.
"""

from __future__ import annotations

from collections.abc import Callable

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.finding import Finding
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.rules import (
    containers,
    head,
    images,
    outage,
    probes,
    reconciling,
    refusals,
    replicas,
    servers,
    service,
    starts,
    storage,
    upgrade,
)
from rayllm_ctl.health.rules.jobs import submission
from rayllm_ctl.health.rules.modelstorage import downloads, volumes
from rayllm_ctl.health.rules.scheduling import machines, scheduling

PodRule = Callable[[ServiceContext, Pod], Finding | None]
ClusterRule = Callable[[ServiceContext, RayCluster], Finding | None]
ServiceRule = Callable[[ServiceContext], Finding | None]

SERVICE_RULES: tuple[ServiceRule, ...] = (
    service.validation_failed,
    service.initializing_timeout,
    submission.config_rejected,
    reconciling.not_reconciled,
    refusals.cluster_refused,
)
"""What the RayService or its events say outright. The first that applies counts."""

CLUSTER_RULES: tuple[ClusterRule, ...] = (
    refusals.service_account_missing,
    refusals.invalid_cluster,
    refusals.refused,
    head.second_head,
)
"""Why pods of a cluster are not even made."""

POD_RULES: tuple[PodRule, ...] = (
    machines.node_lost,
    machines.evicted,
    starts.rejected,
    scheduling.gated,
    scheduling.unschedulable,
    storage.unprovisioned,
    scheduling.overlooked,
    images.image,
    storage.configuration,
    volumes.image_volume,
    storage.unmounted,
    volumes.vanished_claim,
    starts.no_sandbox,
    starts.head_unreachable,
    downloads.copy_hindered,
    containers.out_of_memory,
    containers.killed_by_probe,
    containers.crash,
    probes.probe,
)
"""Why a pod does not run, along its life. The first that applies counts."""

AFTERMATH_RULES: tuple[ClusterRule, ...] = (machines.lost_pods,)
"""What happened to pods that are gone, while nothing is wrong with those that are there."""

CONSEQUENCE_RULES: tuple[ClusterRule, ...] = (
    head.head_down,
    replicas.unschedulable_replica,
    outage.outage,
    replicas.unhealthy_replica,
)
"""What is said of a cluster only if no pod, no refusal and no exception explains it."""

LAST_RULES: tuple[ServiceRule, ...] = (
    upgrade.no_gateway,
    service.bounds_not_applied,
    submission.unreached,
    service.no_serve_port,
)
"""True beside anything else."""

SERVER_SERVICE_RULES: tuple[ServiceRule, ...] = (reconciling.not_reconciled,)
"""What is asked of a RayCluster with vLLM's own server before its pods; the next two are its counterparts of those
above."""

SERVER_POD_RULES: tuple[PodRule, ...] = (
    *POD_RULES[: POD_RULES.index(containers.killed_by_probe)],
    servers.server_failed,
    *POD_RULES[POD_RULES.index(containers.killed_by_probe) :],
)

SERVER_CONSEQUENCE_RULES: tuple[ClusterRule, ...] = (head.head_down, servers.servers_lost)
