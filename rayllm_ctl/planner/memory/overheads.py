"""What no formula gives: memory outside torch, and what kernels set aside while the model loads.

Figures are from public start-up logs, by version and kind of GPU. A kind without a log of its own gets the nearest
kind's figure and a wider band.
"""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.facts import LatentCache, Layer, ModelFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Band
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.memory.engine import Release, major
from rayllm_ctl.planner.memory.shards import ShardSettings, Stage, linear_size

MIB = 2**20


def linked(gpu: GPU) -> bool:
    """Whether GPUs of this kind talk over NVLink (or xGMI) in a node."""
    return gpu.interconnect in ("nvlink", "xgmi")


def fuses_all_reduce(release: Release, gpu: GPU, tensor: int, pipeline: int, *, eager: bool) -> bool:
    """Whether the all-reduce is fused with the norm after it through FlashInfer's workspace: on Hopper and Blackwell
    servers, and only where the model is compiled. It needs a link that multicasts."""
    if tensor == 1 or eager or not linked(gpu) or major(gpu) not in (9, 10):
        return False
    rule = vllm_rules.ALL_REDUCE_IS_FUSED if pipeline == 1 else vllm_rules.ALL_REDUCE_IS_FUSED_IN_STAGES
    return rule.holds(release)


def non_torch(release: Release, gpu: GPU, tensor: int, pipeline: int, *, data: int = 1, eager: bool = False) -> Band:
    """Memory outside torch per GPU, in bytes: growth of the CUDA context, NCCL's and the all-reduce's buffers.

    One H100: 0.13 GiB before 0.18, 0.25 from there (0.24 to 0.27 over 30 models; Granite 3 took 0.46). Pipeline stages
    but the last: 0.07. Other kinds scatter by 0.2 with the variants of a card (A100 PCIe, SXM4). data: ranks of data
    parallelism that exchange tokens, taken as so many more of TP.
    """
    group = data * tensor
    if gpu.vendor == "amd":
        return _gib(0.2, 1.0, 2.5) if group == 1 else _gib(0.5, 1.5, 3.5)
    if group > 1:
        fused = fuses_all_reduce(release, gpu, tensor, pipeline, eager=eager)
        return _several(gpu, group, fused=fused)
    single = 0.25 if vllm_rules.CONTEXT_GREW.holds(release) else 0.13
    if pipeline > 1:
        return _gib(single - 0.18, single, single + 0.25)
    if major(gpu) == 9:
        return _gib(single - 0.06, single, single + 0.25)
    return _gib(single - 0.25, single, single + 0.35)


def _several(gpu: GPU, tensor: int, *, fused: bool) -> Band:
    """Tensor parallelism. Hopper over NVLink: 2.06 to 2.21 GiB at TP 2 and 4 where the all-reduce is fused (0.17 to
    0.19); where it is not, logs show 0.54 and 1.38 at TP 2 (H100; H200 in 0.10), 1.84 at TP 4 (0.10): the middle. A100:
    0.5 at TP 2 (0.11), 1.8 to 2.1 at TP 8. B200 at TP 4: 0.95. PCIe cards have no custom all-reduce: 0.2 to 0.35 (L40S,
    RTX 3090), up to 0.5 with the second model runner (L4)."""
    if not linked(gpu):
        return _gib(0.15, 0.3, 0.85)
    if major(gpu) == 9 and fused:
        typical = 2.07 if tensor == 2 else 2.15
        return _gib(typical - 0.15 - (0.3 if tensor > 4 else 0.0), typical, typical + 0.35)
    if major(gpu) == 9:
        typical = {2: 1.0, 4: 1.3}.get(tensor, 1.6)
        return _gib(0.45, typical, typical + 0.9)
    if major(gpu) >= 10:
        return _gib(0.3, 1.2, 2.5)
    typical = 1.9 if tensor > 4 else 0.6
    return _gib(0.2, typical, typical + 1.5)


_AWQ_SHARE = 0.0075
"""Of AWQ weights: what they took more than their tensors since quantization/auto_awq.py replaced awq_marlin.py (0.24;
Qwen3-14B-AWQ on L40S, 0.28). The cause is not known."""


def awq_growth(facts: ModelFacts, release: Release, weights: int) -> int:
    """Bytes that AWQ weights of `weights` bytes take beyond their tensors."""
    awq = facts.quantization is not None and facts.quantization.method == "awq"
    return int(_AWQ_SHARE * weights) if awq and vllm_rules.AWQ_GREW.holds(release) else 0


def load_extras(
    facts: ModelFacts,
    stage: Stage,
    shape: ShardSettings,
    *,
    release: Release,
    gpu: GPU,
    tokens: int,
    images: bool = True,
) -> Iterator[int]:
    """Bytes of what is set aside while the weights load besides the weights: "Model loading took" counts it.

    Deepstack adds its embeddings to the first layers from buffers of a batch each (models/qwen3_vl.py).
    """
    if any(isinstance(cache, LatentCache) and cache.kind == "mla" for layer in stage.layers for cache in layer.caches):
        yield from _latent_workspaces(release, gpu)
        for layer in stage.layers:
            yield from _absorbed(layer, shape)
    if facts.token_buffers:
        yield facts.token_buffers * tokens
    for encoder in facts.encoders if images else ():
        for _ in range(encoder.levels):
            yield tokens * facts.hidden_size * shape.dtype_bytes
    for table in facts.rotary:
        longer = table.sections and vllm_rules.ROPE_OF_SECTIONS_IS_LONG.holds(release)
        positions = table.positions * (4 if longer else 1)
        for _ in range(len(stage.layers) if table.each_layer else table.count):
            yield positions * table.width * (4 if table.float32 else shape.dtype_bytes)


def _latent_workspaces(release: Release, gpu: GPU) -> Iterator[int]:
    """Workspaces that MLA backends made at import: FlashInfer's 128 MiB from 0.11 to 0.24 (0.125 to 0.129 GiB over the
    tensors in three logs, whatever TP), CUTLASS's as much on Blackwell."""
    if gpu.vendor == "nvidia" and vllm_rules.FLASHINFER_LATENT_WORKSPACE.holds(release):
        yield 128 * MIB
    if major(gpu) == 10 and vllm_rules.CUTLASS_LATENT_WORKSPACE.holds(release):
        yield 128 * MIB


def _absorbed(layer: Layer, shape: ShardSettings) -> Iterator[int]:
    """A quantized kv_b_proj is kept a second time in 16 bits, as the two halves that MLA multiplies by."""
    for linear in layer.linears:
        scheme = shape.scheme_of(linear)
        if scheme is not None and linear.name.endswith("kv_b_proj"):
            inputs, outputs = linear_size(linear, shape.tensor)
            yield inputs * outputs * shape.dtype_bytes


def _gib(low: float, typical: float, high: float) -> Band:
    return Band(low * GIB, typical * GIB, high * GIB)
