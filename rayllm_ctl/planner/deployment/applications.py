"""The Ray cluster for a Serve configuration: pods for its groups of replicas."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import GIB, canonical_quantity, gib, parse_quantity
from rayllm_ctl.model.plan.applications import Applications
from rayllm_ctl.model.plan.deployment import CodeVolume, Runtime, WorkerGroup
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import GPUChoice, Plan, StartupPlan
from rayllm_ctl.model.plan.replica_groups import Group
from rayllm_ctl.model.spec.operations import PodDisruptionBudget
from rayllm_ctl.model.spec.serve_options import ServeProxies
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.deployment.deployment import autoscaler, longest, readiness
from rayllm_ctl.planner.deployment.disruptions import DRAIN_LIMIT, budget, drained, excludes_the_head, spread_pods
from rayllm_ctl.planner.deployment.pod_templates import head_template, worker_template
from rayllm_ctl.planner.deployment.pods import counted_workers
from rayllm_ctl.planner.deployment.ray_token import KnownCluster, decide_token, with_token
from rayllm_ctl.planner.deployment.surroundings import entrance

HEAD = ("500m", "4Gi")
"""CPU and memory of the head: GCS, dashboard, Serve's controller, and the user's code while it is built."""

_RAY_GIB = 1
"""Raylet, agents and Serve's proxy on a worker (Ray alone was measured at 0.6 GiB)."""

_CPU_GIB = 2
_GPU_GIB = 8
_REPLICA_GIB = 1
"""Memory of a worker for each of Ray's CPUs, each GPU, and at least for each replica that may share it (16 at most).
What a deployment reserves (ray_actor_options.memory) counts where it is more."""

_EXTENDED = {"TPU": "google.com/tpu", "neuron_cores": "aws.amazon.com/neuroncore"}
"""Ray's resources that are devices of a pod: KubeRay tells Ray of them (ray-operator/controllers/ray/common/pod.go)."""


def applications(
    service: LLMService,
    groups: Sequence[Group],
    catalog: Mapping[str, GPU],
    runtime: Runtime,
    proxies: ServeProxies,
    serve_config: str,
    code: CodeVolume | None,
    shutdown: int,
    models: ServedModels | None = None,
) -> Applications:
    """What to deploy. `service`: what was said of pods, image and scheduling; its model means nothing. shutdown:
    seconds that replicas have to finish their requests. models: those of Ray Serve LLM.

    Raises UsageError if a replica does not fit a node or the memory that was given.
    """
    workers = application_workers(service, groups, catalog, proxies, shutdown)
    of_models = models.groups if models else ()
    head = models.head if models else HEAD
    return Applications(
        name=service.name,
        namespace=service.namespace,
        runtime=runtime,
        serve_config=serve_config,
        proxies=proxies,
        head=head_template(service, models.startup if models else None),
        head_cpu=canonical_quantity(service.resources.head.cpu or head[0]),
        head_memory=canonical_quantity(service.resources.head.memory or head[1]),
        worker_groups=(*of_models, *workers),
        autoscaler=autoscaler(service.ray),
        ray=with_token(service.ray, decide_token(service, KnownCluster())),
        upgrade=service.upgrade,
        pod_security=service.security.pod_security,
        volumes=service.storage.volumes,
        exposure=entrance(service.exposure),
        code=code,
        explanation=(*(models.explanation if models else ()), *explained(groups, workers)),
        version=runtime.vllm_version if models else runtime.ray_version,
        model_id=models.ids if models else None,
        head_serves=not (models and excludes_the_head(proxies.on_workers, models.fewest_workers)),
        pod_disruption_budget=_budget(models, workers) if models else None,
    )


@dataclass(frozen=True)
class ServedModels:
    """The models of Ray Serve LLM in a Serve configuration, as they are planned. ids: as one text.

    groups: their workers. replicas: the fewest that any of them always has. pods: those of the smallest replica. head:
    CPU and memory of the head. startup: of the model that takes longest. explanation: a line for each group.
    """

    ids: str
    groups: tuple[WorkerGroup, ...]
    replicas: int
    pods: int
    head: tuple[str, str]
    startup: StartupPlan | None
    explanation: tuple[str, ...]

    @property
    def fewest_workers(self) -> int:
        """The workers that always have a proxy."""
        return self.groups[0].min_workers


def served_models(
    ids: Iterable[str], plans: Sequence[Plan], groups: Sequence[WorkerGroup], explanation: Sequence[str]
) -> ServedModels:
    """Of plans that run. ids, groups: of their models, and their workers, in the same order."""
    pods = [plan.pods for plan in plans if plan.pods is not None]
    parallelism = [plan.parallelism for plan in plans if plan.parallelism is not None]
    largest = max(pods, key=lambda one: parse_quantity(one.head_memory))
    return ServedModels(
        ids=", ".join(dict.fromkeys(ids)),
        groups=tuple(groups),
        replicas=min(one.replicas for one in parallelism),
        pods=min(one.workers_per_replica for one in pods),
        head=(largest.head_cpu, largest.head_memory),
        startup=longest(plans),
        explanation=tuple(explanation),
    )


def model_workers(
    service: LLMService, group: WorkerGroup, name: str, shutdown: int, cpus: int, custom: Mapping[str, int], surge: int
) -> WorkerGroup:
    """`group`, the workers of a model as they are planned for a service of its own, for a model in a file.

    service: what was said of pods. shutdown: seconds that replicas have to finish their requests. cpus: what its
    replica and the ingress ask Ray for. custom: resources that its replica takes. surge: further workers while replicas
    are replaced.
    """
    own = group.pod.env
    if DRAIN_LIMIT not in service.engine.env:
        own = tuple(one for one in own if one.name != DRAIN_LIMIT)
    offered = {**json.loads(group.ray_resources or "{}"), **dict(sorted(custom.items()))}
    placed = replace(
        group,
        name=name,
        pod=replace(group.pod, env=own),
        cpus=max(group.cpus, cpus),
        ray_resources=json.dumps(offered) if offered else None,
        max_workers=counted_workers(group.max_workers, 1, f"max_replicas of {name}", surge),
    )
    return drained(placed, shutdown)


def _budget(models: ServedModels, others: Sequence[WorkerGroup]) -> PodDisruptionBudget | None:
    """Evictions take one replica at a time, where each model has another one that answers meanwhile."""
    workers = sum(group.min_workers for group in (*models.groups, *others))
    return budget(models.replicas, workers, models.pods)


def application_workers(
    service: LLMService, groups: Sequence[Group], catalog: Mapping[str, GPU], proxies: ServeProxies, shutdown: int
) -> tuple[WorkerGroup, ...]:
    """The workers of groups of replicas. UsageError if a replica does not fit a node or the given memory."""
    return tuple(drained(spread_pods(_worker(service, group, catalog, proxies)), shutdown) for group in groups)


def explained(groups: Sequence[Group], workers: Sequence[WorkerGroup]) -> Iterator[str]:
    """What each group is for, a line each."""
    return (_explained(group, worker) for group, worker in zip(groups, workers, strict=True))


def gpus_per_node(catalog: Mapping[str, GPU]) -> dict[str, int]:
    """The most GPUs of one machine, by Ray's name of their type."""
    found: dict[str, int] = {}
    for gpu in catalog.values():
        kind = gpu.ray_accelerator_type
        if kind is not None:
            found[kind] = max(found.get(kind, 0), gpu.max_per_node)
    return found


def _worker(service: LLMService, group: Group, catalog: Mapping[str, GPU], proxies: ServeProxies) -> WorkerGroup:
    gpu = _gpu(service, group, catalog)
    if gpu is not None and group.gpus > gpu.count_per_node:
        largest = max(group.units, key=lambda unit: unit.resources.get("GPU", 0.0))
        raise UsageError(
            f"{largest.name}: a replica asks for {group.gpus} GPUs; a node has at most {gpu.count_per_node} "
            f"({gpu.name})",
            hint="placement_group_bundles with placement_group_strategy: SPREAD, one bundle per node",
        )
    devices = {_EXTENDED[name]: math.ceil(amount) for name, amount in group.custom.items() if name in _EXTENDED}
    return WorkerGroup(
        name=group.name,
        min_workers=group.min_workers,
        max_workers=counted_workers(group.max_workers, 1, f"max_replicas of group {group.name}"),
        cpus=group.cpus,
        pod_cpu=canonical_quantity(service.resources.worker.cpu or str(group.cpus)),
        pod_memory=_memory(service, group),
        extended_resources={**({gpu.resource: group.gpus} if gpu else {}), **devices},
        ray_resources=_ray_resources(group),
        pod=worker_template(service, None, gpu, service.scheduling),
        readiness=readiness(proxies),
        ray_labels=group.labels,
    )


def _gpu(service: LLMService, group: Group, catalog: Mapping[str, GPU]) -> GPUChoice | None:
    """The GPU of a group: that of its accelerator type, the one that the user named, or any of NVIDIA's."""
    if not group.gpus:
        return None
    if group.accelerator is not None:
        kinds = [gpu for gpu in catalog.values() if gpu.ray_accelerator_type == group.accelerator]
    else:
        kinds = [catalog[service.accelerator.gpu]] if service.accelerator.gpu else []
    if not kinds:
        most = max(gpu.max_per_node for gpu in catalog.values())
        return GPUChoice("any GPU", most, group.accelerator, {}, taints=("nvidia.com/gpu=present:NoSchedule",))
    return GPUChoice(
        name=kinds[0].name if len(kinds) == 1 else str(group.accelerator),
        count_per_node=max(gpu.max_per_node for gpu in kinds),
        ray_accelerator_type=group.accelerator,
        node_labels=node_labels(kinds),
        resource=kinds[0].resource,
        taints=kinds[0].taints,
    )


def node_labels(kinds: Iterable[GPU]) -> dict[str, tuple[str, ...]]:
    """The labels of which any marks a node with any of these GPUs."""
    found: dict[str, tuple[str, ...]] = {}
    for gpu in kinds:
        for label, values in gpu.node_labels.items():
            found[label] = tuple(dict.fromkeys((*found.get(label, ()), *values)))
    return found


def _ray_resources(group: Group) -> str | None:
    offered: dict[str, float] = {name: amount for name, amount in group.custom.items() if name not in _EXTENDED}
    if group.accelerator is not None:
        # Without it Ray's autoscaler does not know that a new worker would have the type.
        offered[f"accelerator_type:{group.accelerator}"] = 1
    whole = {name: int(amount) if amount == int(amount) else amount for name, amount in sorted(offered.items())}
    return json.dumps(whole) if whole else None


def _memory(service: LLMService, group: Group) -> str:
    given = service.resources.worker.memory
    if given is not None:
        if parse_quantity(given) < group.memory:
            raise UsageError(
                f"{given} of memory is less than a replica of group {group.name} reserves ({group.memory:,} bytes)",
                hint="--memory, or ray_actor_options.memory in the file",
            )
        return canonical_quantity(given)
    shared = max(_CPU_GIB * group.cpus, _REPLICA_GIB * min(group.sharing, 16))
    return f"{_RAY_GIB + max(shared + _GPU_GIB * group.gpus, math.ceil(group.memory / GIB))}Gi"


def _explained(group: Group, worker: WorkerGroup) -> str:
    devices = "".join(f", {count} {name}" for name, count in worker.extended_resources.items())
    offers = "".join(f", {amount:g} {name}" for name, amount in group.custom.items() if name not in _EXTENDED)
    size = f"{worker.cpus} CPU{'' if worker.cpus == 1 else 's'}{devices}{offers}, {worker.pod_memory}"
    count = _range(worker.min_workers, worker.max_workers)
    return f"group {group.name}: {count} workers of {size} for {', '.join(_demands(group))}"


def _demands(group: Group) -> Iterator[str]:
    for unit in group.units:
        asked = ", ".join(_amount(name, amount) for name, amount in unit.resources.items()) or "nothing"
        yield f"{unit.name} ×{_range(unit.low, unit.high)} ({asked})"


def _amount(name: str, amount: float) -> str:
    return f"{gib(amount)} GiB" if name == "memory" else f"{amount:g} {name}"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}..{high}"


def unknown_types(found: Iterable[Group], catalog: Mapping[str, GPU]) -> Iterator[str]:
    """Which groups are on nodes of an accelerator that the catalog does not have."""
    known = {gpu.ray_accelerator_type for gpu in catalog.values()}
    for group in found:
        if group.accelerator is not None and group.accelerator not in known:
            yield f"group {group.name}: the nodes of {group.accelerator} are unknown; name them with --node-selector"
