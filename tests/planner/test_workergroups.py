"""Further groups of workers: like those of the replicas, except for what the spec says."""

from __future__ import annotations

import json

from rayllm_ctl.model.plan.deployment import WorkerGroup
from rayllm_ctl.model.spec.pod_options import PodOptions, Pods
from rayllm_ctl.model.spec.service import Accelerator, ExtraWorkers, LLMService, Model, PodResources, Scheduling
from tests.render.plans import H100, plan, tiny


def groups(*extra: ExtraWorkers, **demanded: float) -> tuple[WorkerGroup, ...]:
    """The groups of a service with TP 4, whose processes take `demanded`."""
    pods = Pods(worker=PodOptions(labels={"a": "b"}))
    service = LLMService("q", Model("m"), worker_groups=extra, pods=pods, scheduling=Scheduling(ray_resources=demanded))
    found = plan(service, H100, tensor=4).deployment
    assert found is not None
    return found.worker_groups


def offered(group: WorkerGroup) -> dict[str, int]:
    listed: dict[str, int] = json.loads(group.ray_resources or "{}")
    return listed


def test_a_group_is_sized_as_planned_unless_the_spec_says_otherwise() -> None:
    worker, like, own = groups(
        ExtraWorkers("like", 1, 3), ExtraWorkers("own", gpus=8, resources=PodResources("32", "300Gi"), idle_timeout=90)
    )
    assert (like.name, like.min_workers, like.max_workers, like.idle_timeout) == ("like", 1, 3, None)
    assert (like.pod_cpu, like.pod_memory, like.cpus) == (worker.pod_cpu, worker.pod_memory, worker.cpus)
    assert like.extended_resources == worker.extended_resources == {"nvidia.com/gpu": 4}
    assert (own.pod_cpu, own.pod_memory, own.cpus, own.idle_timeout) == ("32", "300Gi", 32, 90)
    assert own.extended_resources == {"nvidia.com/gpu": 8}
    assert like.pod.labels == own.pod.labels == worker.pod.labels
    assert worker.pod.labels["a"] == "b"
    assert like.pod.placement.affinity == worker.pod.placement.affinity


def test_a_group_without_gpus_is_nothing_that_a_replica_could_run_on() -> None:
    _, group = groups(ExtraWorkers("ingress", gpus=0, resources=PodResources("1500m", "4Gi")))
    assert (group.extended_resources, group.cpus, group.ray_resources) == ({}, 1, None)
    assert group.pod.placement.affinity == {}
    assert group.pod.placement.tolerations == ()


def test_a_worker_offers_what_its_processes_take() -> None:
    worker, with_disk, without = groups(
        ExtraWorkers("with", ray_resources={"disk": 4}), ExtraWorkers("without"), disk=0.3, license=1
    )
    assert offered(worker) == {"accelerator_type:H100": 1, "disk": 2, "license": 4}
    assert offered(with_disk) == {"accelerator_type:H100": 1, "disk": 4}
    assert offered(without) == {"accelerator_type:H100": 1}


def test_on_cpus_no_pod_takes_two_replicas() -> None:
    large = ExtraWorkers("large", resources=PodResources("64", "8Gi"))
    service = LLMService("q", Model("m", path="/m"), accelerator=Accelerator("cpu"), worker_groups=(large,))
    found = tiny(service).deployment
    assert found is not None
    assert [group.cpus for group in found.worker_groups] == [3, 3]
