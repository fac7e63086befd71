"""CPU and memory of the pods. /dev/shm needs no size of its own: KubeRay mounts it as large as the memory limit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.quantities import GIB, canonical_quantity, parse_quantity
from rayllm_ctl.model.plan.hardware import GPU, NodeShape
from rayllm_ctl.model.plan.plan import PodSizes, Reason
from rayllm_ctl.model.spec.service import Resources
from rayllm_ctl.planner.engine.parallelism import gpus_of_a_node

_RAY_GIB = 6
"""Raylet, object store, Serve's proxy and ingress, the driver of one replica (Ray alone was measured at 0.6 GiB)."""

_PROCESS_GIB = 5
"""One engine process: CUDA context, Python, compiler; weights stream through it file by file."""

_STREAM_GIB = 4
"""Buffer of a process that streams weights, at most. The streamer's own limit is 40 GB (RUNAI_STREAMER_MEMORY_LIMIT);
it has to hold the largest tensor, an embedding of 2.4 GiB in models of 70B."""

_NODE_SHARE = 0.85
"""Share of a machine's CPUs and RAM that pods may ask for: the rest is the system's and the kubelet's."""

_LEAST_GIB = {"head": 0.6, "worker": 2.0}
"""Below it the pods of a service on GPUs do not start, whatever the model is: Ray alone took 0.6 GiB, and a worker also
imports PyTorch and the engine (3.7 GB on CPUs with a model of 2.6 MB)."""

_CPU_HEAD = ("200m", "4Gi")
_FEWEST_CPUS = "500m"
_SMALL_GIB = 2.0
_GIB_OF_A_CPU = 1.0
"""A CPU worker gets a CPU for each GiB of weights: a token reads all of them, and a core some 10 GB/s, so it then takes
about 0.1 s. Not measured. Models up to the first figure are for trials, and share a core."""

_CPU_WORKER_BASE_GIB = 4
"""A CPU worker without weights and cache: Ray, Serve, PyTorch (3.7 GB measured with a model of 2.6 MB)."""


MOST_WORKERS = 2**31 - 1
"""Of a worker group: the API server keeps the number in 32 bits."""


def counted_workers(replicas: int, each: int, field: str, further: int = 0) -> int:
    """`replicas` times `each` workers and `further` ones. UsageError for more than a RayCluster can have; field: where
    the replicas were stated."""
    workers = replicas * each + further
    if workers > MOST_WORKERS:
        most = (MOST_WORKERS - further) // each
        needed = f", and a replica has {each}" if each > 1 else ""
        raise UsageError(
            f"{field}: must be at most {most}, not {replicas}: a worker group has at most {MOST_WORKERS}{needed}"
        )
    return workers


def memory_problem(pods: PodSizes, planned: PodSizes) -> Reason | None:
    """Why pods with the memory that the user set do not start, whatever the model is; None if they may."""
    sizes = {
        "head": (pods.head_memory, planned.head_memory, "spec.resources.head.memory:"),
        "worker": (pods.worker_memory, planned.worker_memory, "--memory"),
    }
    for pod, (memory, enough, field) in sizes.items():
        if parse_quantity(memory) < _LEAST_GIB[pod] * GIB:
            message = f"the {pod}'s memory of {memory} is insufficient: the pod does not start with less than "
            return Reason(f"{pod}-memory", f"{message}{_LEAST_GIB[pod]:g} GiB", f"{field} {enough}")
    return None


def size_notes(pods: PodSizes, planned: PodSizes) -> Iterator[str]:
    """What the user made much smaller than the `planned` sizes."""
    sizes = (
        ("memory", pods.worker_memory, planned.worker_memory),
        ("CPU request", pods.worker_cpu, planned.worker_cpu),
    )
    for what, size, enough in sizes:
        if 2 * parse_quantity(size) < parse_quantity(enough):
            yield f"the {what} of a worker is {size}, less than half of the {enough} that is planned"


def gpu_pods(gpu: GPU, tensor: int, pipeline: int, checkpoint_bytes: float, resources: Resources) -> PodSizes:
    """Pods of a replica on GPUs: one worker where a node holds it, else one per pipeline stage, or per node of a stage.

    The worker's memory leaves room for the weights in the page cache (a restart then loads from RAM) as far as the
    smallest machine with so many GPUs has it; the user's `resources` win.
    """
    whole = tensor * pipeline <= gpu.max_per_node
    per_worker = tensor * pipeline if whole else gpus_of_a_node(gpu, tensor)
    workers = tensor * pipeline // per_worker
    shape = _smallest_shape(gpu, per_worker)
    needed = _RAY_GIB + _PROCESS_GIB * per_worker
    wanted = needed + math.ceil(checkpoint_bytes / workers / GIB)
    cpus = 2 + 2 * per_worker
    if shape is not None:
        share = per_worker / shape.gpus * _NODE_SHARE
        least = min(needed, math.floor(shape.memory_gib * _NODE_SHARE))
        wanted = max(least, min(wanted, math.floor(shape.memory_gib * share)))
        cpus = max(1, min(cpus, math.floor(shape.cpus * share)))
    return _sized(("1", "8Gi"), (str(cpus), f"{wanted}Gi"), per_worker, workers, resources)


def transformers_pods(
    gpu: GPU, gpus: int, checkpoint_bytes: float, offloaded_bytes: int, resources: Resources
) -> tuple[PodSizes, str]:
    """The pod of a replica on the Transformers engine, one process for all its GPUs, and what its memory must hold.

    That is Ray, the process, and the layers that stay in CPU memory; beyond it the page cache of the weights, as far as
    the smallest machine with so many GPUs has it.
    """
    needed = _RAY_GIB + _PROCESS_GIB + (gpus - 1) + math.ceil(offloaded_bytes / GIB)
    wanted = needed + math.ceil(checkpoint_bytes / GIB)
    cpus, shape = 2 + 2 * gpus, _smallest_shape(gpu, gpus)
    if shape is not None:
        share = gpus / shape.gpus * _NODE_SHARE
        wanted = max(needed, min(wanted, math.floor(shape.memory_gib * share)))
        cpus = max(1, min(cpus, math.floor(shape.cpus * share)))
    return _sized(("1", "8Gi"), (str(cpus), f"{wanted}Gi"), gpus, 1, resources), f"{needed}Gi"


def streaming_pods(
    pods: PodSizes, processes: int, file_bytes: int | None, limit: int | None, resources: Resources
) -> tuple[PodSizes, int]:
    """Workers whose engine streams the weights, and the bytes that each process may buffer.

    processes: of the engine in a worker. limit: what the user allows a process. On GPUs the buffers take the place of
    the page cache, which streaming does not fill; on CPUs they come on top. Memory that the user sets stays.
    """
    whole = _STREAM_GIB if file_bytes is None else math.ceil(file_bytes / GIB)
    buffer = min(_STREAM_GIB, max(1, whole)) * GIB if limit is None else limit
    memory = parse_quantity(pods.worker_memory)
    others = (_RAY_GIB + _PROCESS_GIB * processes) * GIB if pods.gpus_per_worker else memory
    if resources.worker.memory is not None:
        if limit is None and pods.gpus_per_worker:
            buffer = int(min(buffer, max(GIB, (memory - others) // processes)))
        return pods, buffer
    least = math.ceil((others + processes * buffer) / GIB)
    if least * GIB <= memory:
        return pods, buffer
    return replace(pods, worker_memory=canonical_quantity(f"{least}Gi")), buffer


def most_memory_gib(gpu: GPU, gpus: int) -> int | None:
    """GiB that a pod can ask of the largest known machine with so many GPUs; None if no machine is known."""
    found = [shape.memory_gib for shape in gpu.shapes if shape.gpus >= gpus]
    return math.floor(max(found) * _NODE_SHARE) if found else None


def cpu_pods(weights_bytes: float, kv_bytes: float, tensor: int, resources: Resources) -> PodSizes:
    """Pods of a replica on CPUs. weights_bytes and kv_bytes: of the whole model and its KV cache."""
    memory = max(6, math.ceil(_CPU_WORKER_BASE_GIB + tensor + 1.3 * weights_bytes / GIB + kv_bytes / GIB))
    small = weights_bytes <= _SMALL_GIB * GIB
    cpus = _FEWEST_CPUS if small else str(max(tensor, math.ceil(weights_bytes / GIB / _GIB_OF_A_CPU)))
    return _sized(_CPU_HEAD, (cpus, f"{memory}Gi"), 0, 1, resources)


def _sized(head: tuple[str, str], worker: tuple[str, str], gpus: int, workers: int, resources: Resources) -> PodSizes:
    return PodSizes(
        head_cpu=canonical_quantity(resources.head.cpu or head[0]),
        head_memory=canonical_quantity(resources.head.memory or head[1]),
        worker_cpu=canonical_quantity(resources.worker.cpu or worker[0]),
        worker_memory=canonical_quantity(resources.worker.memory or worker[1]),
        gpus_per_worker=gpus,
        workers_per_replica=workers,
        engine_cpus=1.0,
    )


def _smallest_shape(gpu: GPU, gpus: int) -> NodeShape | None:
    """The machine with the fewest GPUs, then the least RAM, that has at least `gpus` GPUs."""
    fitting = [shape for shape in gpu.shapes if shape.gpus >= gpus]
    return min(fitting, key=lambda shape: (shape.gpus, shape.memory_gib, shape.cpus), default=None)
