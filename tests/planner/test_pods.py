from __future__ import annotations

from dataclasses import replace

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.quantities import GIB, parse_quantity
from rayllm_ctl.model.plan.hardware import NodeShape
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.service import (
    Accelerator,
    LLMService,
    Model,
    Parallelism,
    PodResources,
    Replicas,
    Resources,
)
from rayllm_ctl.planner.deployment.pods import counted_workers, cpu_pods, gpu_pods
from rayllm_ctl.workflows.plan.model import make_plan
from tests.planner.gpus import H100, L4


def test_a_small_machine_is_not_asked_for_more_than_it_has() -> None:
    pods = gpu_pods(L4, 1, 1, 16 * GIB, Resources())
    assert parse_quantity(pods.worker_memory) <= 16 * GIB * 0.85
    assert parse_quantity(pods.worker_cpu) <= 4 * 0.85
    assert (pods.gpus_per_worker, pods.workers_per_replica) == (1, 1)


def test_engines_get_the_memory_they_need_where_weights_would_fill_the_share() -> None:
    """Two of a machine's eight GPUs: 6 GiB and 5 a GPU, though the machine's share is more and the weights are huge."""
    tight = replace(L4, shapes=(NodeShape("test", "tight", 8, 64, 64),))
    assert gpu_pods(tight, 2, 1, 100 * GIB, Resources()).worker_memory == "16Gi"
    roomy = replace(L4, shapes=(NodeShape("test", "roomy", 8, 64, 800),))
    assert gpu_pods(roomy, 2, 1, 100 * GIB, Resources()).worker_memory == "116Gi"


def test_a_large_machine_gives_room_for_the_page_cache() -> None:
    pods = gpu_pods(H100, 8, 1, 140 * GIB, Resources())
    assert parse_quantity(pods.worker_memory) >= 140 * GIB


def test_pipeline_stages_over_nodes_are_workers_of_their_own() -> None:
    pods = gpu_pods(H100, 8, 2, 800 * GIB, Resources())
    assert (pods.gpus_per_worker, pods.workers_per_replica) == (8, 2)
    inside = gpu_pods(H100, 4, 2, 140 * GIB, Resources())
    assert (inside.gpus_per_worker, inside.workers_per_replica) == (8, 1)


def test_tensor_parallelism_over_nodes_has_equal_parts_on_each() -> None:
    layouts = [gpu_pods(H100, tensor, pipeline, 800 * GIB, Resources()) for tensor, pipeline in ((16, 1), (12, 2))]
    assert [(pods.gpus_per_worker, pods.workers_per_replica) for pods in layouts] == [(8, 2), (6, 4)]


def test_what_the_user_set_wins() -> None:
    resources = Resources(head=PodResources(cpu="4", memory="16Gi"), worker=PodResources(cpu="20", memory="200Gi"))
    pods = gpu_pods(H100, 1, 1, 16 * GIB, resources)
    assert (pods.head_cpu, pods.head_memory, pods.worker_cpu, pods.worker_memory) == ("4", "16Gi", "20", "200Gi")


def test_a_cpu_worker_holds_weights_and_cache() -> None:
    assert cpu_pods(3e6, 1 * GIB, 1, Resources()).worker_memory == "7Gi"
    assert parse_quantity(cpu_pods(16 * GIB, 4 * GIB, 1, Resources()).worker_memory) > 20 * GIB


def test_a_cpu_worker_gets_a_cpu_for_each_gib_of_weights() -> None:
    assert cpu_pods(1.1 * GIB, GIB, 1, Resources()).worker_cpu == "500m"
    assert cpu_pods(15.3 * GIB, GIB, 1, Resources()).worker_cpu == "16"
    assert cpu_pods(3.2 * GIB, GIB, 6, Resources()).worker_cpu == "6"
    assert cpu_pods(15.3 * GIB, GIB, 1, Resources(worker=PodResources(cpu="2"))).worker_cpu == "2"


def test_more_workers_than_32_bits_count_are_rejected_with_the_range() -> None:
    """The API server rejects the RayCluster otherwise."""
    assert counted_workers(2**30 - 1, 2, "max") == 2**31 - 2
    assert counted_workers(2**31 - 1, 1, "max") == 2**31 - 1
    with pytest.raises(UsageError, match=r"^max: must be at most 1073741823, not 1073741824: .* a replica has 2$"):
        counted_workers(2**30, 2, "max")
    with pytest.raises(UsageError, match=r"^max: must be at most 2147483643, not 2147483647: "):
        counted_workers(2**31 - 1, 1, "max", 4)


def test_the_range_of_replicas_on_several_nodes_is_checked_before_manifests_are_made() -> None:
    service = LLMService(
        "q",
        Model("Qwen/Qwen3-8B"),
        accelerator=Accelerator(gpu="H100-80GB"),
        parallelism=Parallelism(8, 2),
        replicas=Replicas(max=2**31 - 1),
    )
    with pytest.raises(UsageError, match=r"spec.replicas.max \(--max-replicas\): must be at most 1073741823"):
        make_plan(service, OFFLINE)
