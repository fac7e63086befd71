"""Which tensor and pipeline parallel sizes vLLM accepts for a model, and which of them are worth trying.

The rules are those of vLLM's layers (0.8 to 0.33): every fused projection is divided into whole units (heads, expert
columns), and a quantized shard must hold whole blocks or groups. KV heads may be fewer than ranks if they divide them.
"""

from __future__ import annotations

import math

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.facts import Experts, Linear, ModelFacts, Scheme
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Reason
from rayllm_ctl.planner import vllm_rules

_SEARCHED_TENSOR = (1, 2, 4, 8)
_SEARCHED_PIPELINE = (2, 3, 4, 6, 8)
ACROSS_NODES = (
    "over an ordinary network TP reduces throughput: pods with one GPU each answered 2.32, 0.98 and 0.59 requests/s at "
    "TP 1, 2 and 4"
)
PERMITTED = "For a fast network, --tp-across-nodes permits it"


_SMALLEST_BLOCK = 32
"""The smallest block that scales are refined to."""


@dataclass(frozen=True)
class Division:
    """What decides how layers are divided, besides TP: vLLM's release, whether experts are spread whole over the GPUs
    (expert parallelism), and whether these compute in fp8. data: ranks of data parallelism, over which experts are
    divided, too."""

    release: tuple[int, int, int]
    expert_parallel: bool = False
    computes_fp8: bool = False
    data: int = 1


def layout_problem(
    facts: ModelFacts, gpu: GPU, tensor: int, pipeline: int, division: Division, *, across_nodes: bool = False
) -> Reason | None:
    """Why a replica of `tensor` x `pipeline` GPUs cannot be placed or divided, or None.

    across_nodes: the user opted in to a `tensor` that exceeds one node.
    """
    if tensor > gpu.max_per_node and not across_nodes:
        return Reason(
            "tensor-parallel-across-nodes",
            f"TP {tensor} exceeds the {gpu.max_per_node} GPUs of a node with {gpu.name}; {ACROSS_NODES}. " + PERMITTED,
        )
    group = division.data * tensor
    if division.data > 1 and group > gpu.max_per_node and not across_nodes:
        return Reason(
            "data-parallel-across-nodes",
            f"DP {division.data} × TP {tensor} divides experts over {group} GPUs, and a node with {gpu.name} has "
            f"{gpu.max_per_node}: over an ordinary network their exchange is slow. " + PERMITTED,
        )
    if pipeline > facts.layer_count:
        return Reason(
            "pipeline-exceeds-layers",
            f"PP {pipeline} exceeds the {facts.layer_count} layers of the model",
        )
    return sharding_problem(facts, tensor, division)


def sharding_problem(facts: ModelFacts, tensor: int, division: Division) -> Reason | None:
    """Why the layers cannot be divided by TP `tensor`, or None. The attention heads are looked at first."""
    if tensor * division.data == 1:
        return next(filter(None, (_merged(item, division) for item in _kinds(facts))), None)
    if facts.heads and facts.heads % tensor:
        return Reason(
            "tensor-parallel-heads",
            f"TP {tensor} does not divide the {facts.heads} attention heads of {facts.architecture}",
        )
    if facts.kv_heads and facts.kv_heads % tensor and tensor % facts.kv_heads:
        return Reason(
            "tensor-parallel-kv-heads",
            f"TP {tensor} neither divides nor is a multiple of the {facts.kv_heads} KV heads of {facts.architecture}",
        )
    for item in _kinds(facts):
        if isinstance(item, Linear):
            problem = _merged(item, division) if tensor == 1 else _linear(item, tensor, division)
        else:
            problem = _experts(item, tensor * division.data, division)
        if problem:
            return problem
    return None


def gpus_of_a_node(gpu: GPU, tensor: int) -> int:
    """How many of `tensor` GPUs one node holds: all, or the most that divide them evenly over several nodes."""
    return next(n for n in range(min(tensor, gpu.max_per_node), 0, -1) if tensor % n == 0)


def valid_tensor_sizes(facts: ModelFacts, gpu: GPU, division: Division) -> tuple[int, ...]:
    """Every TP inside one node of `gpu` that the model can be divided by."""
    return tuple(n for n in range(1, gpu.max_per_node + 1) if sharding_problem(facts, n, division) is None)


_LARGEST_TENSOR = 1024
"""Up to which sizes are looked for: more than the attention heads of any model, which they divide."""


def nearest_tensor_sizes(
    facts: ModelFacts, gpu: GPU, wanted: int, division: Division, *, across_nodes: bool = False
) -> tuple[int, ...]:
    """The valid sizes next to `wanted`: the largest below and the smallest above, where there are such."""
    most = max(gpu.max_per_node, min(2 * wanted, _LARGEST_TENSOR)) if across_nodes else gpu.max_per_node
    valid = [n for n in range(1, most + 1) if sharding_problem(facts, n, division) is None]
    below = [n for n in valid if n < wanted]
    above = [n for n in valid if n > wanted]
    return (*below[-1:], *above[:1])


def node_layouts(gpu: GPU, tensor: int | None, pipeline: int | None) -> list[tuple[int, int]]:
    """The (TP, PP) pairs to try first, fewest GPUs first: what the user gave, else TP inside one node."""
    tensors = [tensor] if tensor is not None else [t for t in _SEARCHED_TENSOR if t <= gpu.max_per_node]
    return [(t, pipeline or 1) for t in tensors]


def staged_layouts(facts: ModelFacts, gpu: GPU, division: Division) -> list[tuple[int, int]]:
    """The (TP, PP) pairs over several nodes: the largest TP of a node, and a pipeline stage on each.

    Pipeline stages wait for one another, so they are worth it only where no node holds the model.
    """
    usable = [t for t in _SEARCHED_TENSOR if t <= gpu.max_per_node and sharding_problem(facts, t, division) is None]
    return [(usable[-1], p) for p in _SEARCHED_PIPELINE if p <= facts.layer_count]


def _kinds(facts: ModelFacts) -> list[Linear | Experts]:
    """The different projections of a model. Layers of a kind are one object, so identity tells them apart cheaply."""
    layers = {id(layer): layer for layer in (*facts.layers, *facts.shared)}.values()
    kinds: list[Linear | Experts] = []
    for layer in layers:
        kinds += layer.linears
        kinds += layer.experts
    return kinds


def _linear(linear: Linear, tensor: int, division: Division) -> Reason | None:
    if linear.split == "none":
        return None
    scheme = linear.scheme
    if linear.split == "row":
        units = linear.input_units or linear.inputs
        if units % tensor or linear.inputs % tensor:
            return _indivisible(linear.name, units, tensor)
        shard, block = linear.inputs // tensor, 0
        if scheme is not None:
            block = scheme.block[1] if scheme.block else scheme.group
        if block > 1 and shard % block:
            return _broken_block(linear.name, shard, block, tensor)
        return None
    merged = _may_end_within_a_block(linear, division)
    for part in linear.parts:
        if not part.divides(tensor):
            return _indivisible(linear.name, part.units, tensor)
        if scheme and scheme.block and not merged and part.per_rank(tensor) % scheme.block[0]:
            return _broken_block(linear.name, part.per_rank(tensor), scheme.block[0], tensor)
    return None


def _may_end_within_a_block(linear: Linear, division: Division) -> bool:
    may = vllm_rules.MERGED_BLOCKS_MAY_BREAK.holds(division.release)
    return may and len(linear.parts) > 1 and _is_native(linear.scheme)


def _merged(item: Linear | Experts, division: Division) -> Reason | None:
    """Why the parts of a merged projection cannot stand behind one another on a single GPU: all but the last must fill
    their blocks (quantization/utils/fp8_utils.py validate_fp8_block_shape, read in 0.16 to 0.33)."""
    if not isinstance(item, Linear) or item.split != "column" or item.scheme is None or item.scheme.block is None:
        return None
    rows = item.scheme.block[0]
    broken = next((part.size for part in item.parts[:-1] if part.size % rows), 0)
    if not broken or _may_end_within_a_block(item, division) or item.scheme.method not in _VALIDATED:
        return None
    return _broken_block(item.name, broken, rows, 1)


_VALIDATED = frozenset({"fp8", "compressed-tensors", "quark", "inc"})
"""Formats whose blocks vLLM checks: modelopt's are not among the callers of validate_fp8_block_shape (0.33)."""


def _experts(experts: Experts, tensor: int, division: Division) -> Reason | None:
    if division.expert_parallel:
        return None
    if experts.intermediate % tensor:
        return _indivisible(experts.name, experts.intermediate, tensor)
    scheme, shard = experts.scheme, experts.intermediate // tensor
    if scheme is None or not scheme.block or not any(shard % size for size in scheme.block):
        return None
    refines = division.computes_fp8 and vllm_rules.EXPERT_BLOCKS_ARE_REFINED.holds(division.release)
    refined = _is_native(scheme) and refines
    if refined and math.gcd(*scheme.block, shard, experts.hidden) >= _SMALLEST_BLOCK:
        return None
    return _broken_block(experts.name, shard, max(scheme.block), tensor)


def _is_native(scheme: Scheme | None) -> bool:
    """Whether weights are in vLLM's own fp8 format (Fp8Config), not in that of another library."""
    return scheme is not None and scheme.method == "fp8"


def _indivisible(name: str, units: int, tensor: int) -> Reason:
    return Reason("tensor-parallel-shard", f"TP {tensor} does not divide the {units} units of {name}")


def _broken_block(name: str, shard: int, block: int, tensor: int) -> Reason:
    return Reason(
        "tensor-parallel-quantization-block",
        f"TP {tensor} gives {name} shards of {shard} columns, not a multiple of the quantization block {block}",
    )
