"""What keeps a service answering while its pods are moved: time to finish requests, workers on several nodes, a budget.

A pod that is deleted or evicted gets SIGTERM. Ray marks its node as draining then, and waits until nothing runs on it
any more, at most RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S (Ray 2.60, ray/_private/node.py). Serve starts other replicas
elsewhere, and stops those on the node when they are there, at the latest graceful_shutdown_timeout_s before that time
is over (ray/serve/_private/deployment_state.py); a replica that is stopped gets no new requests and finishes those it
has. Ray's default is 30 s, as is that of Kubernetes: too short for the answers of a model.
"""

from __future__ import annotations

import math
from dataclasses import replace

from rayllm_ctl.model.plan.deployment import WorkerGroup
from rayllm_ctl.model.plan.pods import EnvVar
from rayllm_ctl.model.spec.operations import PodDisruptionBudget
from rayllm_ctl.model.spec.service import LLMService

DRAIN_LIMIT = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"
"""The variable with the seconds that Ray waits."""

GRACEFUL_SHUTDOWN_SECONDS = 120
"""Ray cuts answers off 20 s after it decides to stop a replica; long generations stream for a minute or two."""

_NOTICE_SECONDS = 10
"""From SIGTERM until Serve stops replicas that have no successor: its controller and the routers learn of it."""

_TEARDOWN_SECONDS = 10
"""For Ray's processes to end after the drain, before the kubelet kills them."""

_REDUNDANT = 2
"""Replicas, or workers with a proxy, of which one may go while the others answer."""


def graceful_shutdown(service: LLMService) -> int:
    """Seconds that a replica has to finish its requests: as long as one may take, where that is limited."""
    limit = service.serve.http.request_timeout
    return GRACEFUL_SHUTDOWN_SECONDS if limit is None else math.ceil(limit)


def drained(group: WorkerGroup, seconds: int) -> WorkerGroup:
    """`group` with pods in which replicas have so many seconds to finish their requests."""
    pod, limit = group.pod, seconds + _NOTICE_SECONDS
    given = next((one.value or "" for one in pod.env if one.name == DRAIN_LIMIT), None)
    if given is None:
        pod = replace(pod, env=(EnvVar(DRAIN_LIMIT, str(limit)), *pod.env))
    elif given.isdigit():
        limit = int(given)
    return replace(group, pod=replace(pod, grace_period=limit + _TEARDOWN_SECONDS))


def spread_pods(group: WorkerGroup) -> WorkerGroup:
    """`group` with pods that run on different nodes where they can, unless the spec says where.

    It does not depend on how many there are: what changes in a pod starts a second RayCluster.
    """
    if group.pod.topology_spread_constraints:
        return group
    return replace(group, pod=replace(group.pod, spread_over_nodes=True))


def budget(replicas: int, workers: int, workers_per_replica: int) -> PodDisruptionBudget | None:
    """Evictions take one replica at a time, where another one answers meanwhile; None if there is none.

    replicas, workers: as many as there always are.
    """
    return PodDisruptionBudget(workers - workers_per_replica) if replicas >= _REDUNDANT else None


def excludes_the_head(proxies_on_workers: bool, fewest: int) -> bool:
    """Whether clients need not connect to the head, whose pod takes their requests with it when it ends.

    fewest: workers that always have a proxy. With a single one, or none, requests wait at the head for a replica.
    """
    return proxies_on_workers and fewest >= _REDUNDANT
