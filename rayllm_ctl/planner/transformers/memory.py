"""Memory of each GPU of a replica: weights and cache of the layers on it, activations, CUDA, and a margin."""

from __future__ import annotations

from collections.abc import Sequence

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.transformers import DevicePlan
from rayllm_ctl.planner.transformers.activations import UNKNOWN, transformers_layer_bytes
from rayllm_ctl.planner.transformers.devicemap import DeviceLimits, device_map
from rayllm_ctl.planner.transformers.parts import Loading, ModelPart

MIB = 2**20

_LARGE_GPU = 70 * GIB
_CONTEXT_LARGE, _CONTEXT_SMALL = int(0.82 * GIB), int(0.55 * GIB)
"""CUDA context, kernels and workspaces of cuBLAS on one GPU. Large: measured with this engine on an H100 (transformers
5.23, torch 2.11, CUDA 13.0): 0.60 GiB before anything is loaded, 0.68 to 0.75 after it has run, and 0.06 of workspaces
that PyTorch allocates. Small: of vLLM's start-up logs (planner/memory/outside.py, overheads.py): 0.3 GiB before
anything is loaded and 0.25 more once it has run."""

_MARGIN, _LEAST_MARGIN = 0.05, GIB // 2
"""Of a GPU's memory: holes in PyTorch's allocator. DynamicCache appends a token to each layer's tensors by copying them
into larger ones, for which blocks that become free are too small. Measured once, with Qwen3-8B and three requests of
8,192 tokens: 2.5 % more than the tensors at the peak."""

_UNKNOWN_MARGIN = 0.10
_UNKNOWN_ACTIVATIONS = 2
"""For architectures that are not known here."""

_SAMPLING_BYTES = 28
"""Of an entry of the last position's logits: float32 logits and probabilities, and for top-p their sorted copy with
64-bit indices and its running sum. Logits of other positions are not computed (logits_to_keep of generate())."""


@dataclass(frozen=True)
class Spread:
    """The devices of one replica. offloaded: bytes of layers in CPU memory. limit: bytes of weights on each GPU."""

    devices: tuple[DevicePlan, ...]
    offloaded: int
    limit: int

    @property
    def fullest(self) -> DevicePlan:
        """The GPU that has the least left."""
        return min(self.devices, key=lambda one: one.total_bytes - one.needed_bytes - one.margin_bytes)

    @property
    def fits(self) -> bool:
        one = self.fullest
        return one.needed_bytes + one.margin_bytes <= one.total_bytes

    @property
    def may_fit(self) -> bool:
        """Whether it fits without the margin."""
        return all(one.needed_bytes <= one.total_bytes for one in self.devices)


@dataclass(frozen=True)
class Machine:
    """GPUs of one pod; cap: most bytes of weights on each, as the user states it; cpu: bytes for layers off them."""

    gpu: GPU
    gpus: int
    cap: int | None = None
    cpu: int | None = None


def spread(
    facts: ModelFacts, parts: Sequence[ModelPart], loading: Loading, machine: Machine, batch: int, *, offload: bool
) -> Spread | None:
    """The devices with `batch` requests generated at once; None if some layer does not fit.

    offload: with layers in CPU memory, as few as leave the GPUs their cache and activations; else with none.
    """
    room = machine.gpu.memory_bytes - transformers_context_bytes(machine.gpu)
    quantized = loading.quantization is not None
    most = room if machine.cap is None else min(room, machine.cap)
    if not offload:
        return _placed(facts, parts, loading, machine, batch, DeviceLimits(machine.gpus, most, None, quantized))
    best, low, high = None, 0, most // MIB
    while low <= high:
        middle = (low + high) // 2
        limits = DeviceLimits(machine.gpus, middle * MIB, 2**62, quantized)
        found = _placed(facts, parts, loading, machine, batch, limits)
        if found is not None and found.fits:
            best, low = found, middle + 1
        else:
            high = middle - 1
    if best is None or not _cpu_holds(parts, machine, best, quantized):
        return None
    return best


def _cpu_holds(parts: Sequence[ModelPart], machine: Machine, found: Spread, quantized: bool) -> bool:
    limits = DeviceLimits(machine.gpus, found.limit, machine.cpu or 0, quantized)
    return device_map(parts, limits) is not None


def _placed(
    facts: ModelFacts, parts: Sequence[ModelPart], loading: Loading, machine: Machine, batch: int, limits: DeviceLimits
) -> Spread | None:
    places = device_map(parts, limits)
    if places is None:
        return None
    away = [part for part, place in zip(parts, places, strict=True) if place == machine.gpus]
    unknown = UNKNOWN in facts.traits
    factor = _UNKNOWN_ACTIVATIONS if unknown else 1
    working, sampling = factor * transformers_layer_bytes(facts, loading), batch * facts.vocab_size * _SAMPLING_BYTES
    # Tied to the embedding, the head lies on the first GPU.
    head = 0 if facts.tied_embeddings or places[-1] == machine.gpus else places[-1]
    devices = []
    for index in range(machine.gpus):
        here = [part for part, place in zip(parts, places, strict=True) if place == index]
        # Layers in CPU memory are computed on the first GPU, where their cache is as well.
        computed = [*here, *away] if index == 0 else here
        devices.append(
            DevicePlan(
                device=str(index),
                total_bytes=machine.gpu.memory_bytes,
                layers=sum(part.layers for part in here),
                weights_bytes=sum(part.weights for part in here),
                kv_cache_bytes=_cache(computed, batch),
                activation_bytes=(working if any(part.layers for part in computed) else 0)
                + (sampling if index == head else 0),
                context_bytes=transformers_context_bytes(machine.gpu),
                reserved_bytes=max((part.weights for part in away), default=0) if index == 0 else 0,
                margin_bytes=margin_bytes(machine.gpu, unknown=unknown),
            )
        )
    return Spread(tuple(devices), sum(part.weights for part in away), limits.each)


def _cache(parts: Sequence[ModelPart], batch: int) -> int:
    """The caches of `batch` requests, and a copy of the largest layer's while a token is appended to it."""
    held = [part.cache * batch for part in parts]
    return sum(held) + max(held, default=0)


def transformers_context_bytes(gpu: GPU) -> int:
    """CUDA's own memory on one GPU."""
    return _CONTEXT_LARGE if gpu.memory_bytes >= _LARGE_GPU else _CONTEXT_SMALL


def margin_bytes(gpu: GPU, *, unknown: bool) -> int:
    """What is kept free on one GPU."""
    return max(_LEAST_MARGIN, int((_UNKNOWN_MARGIN if unknown else _MARGIN) * gpu.memory_bytes))
