"""What one token costs: bytes read and floating-point operations per GPU, from the facts of a model.

Counted per decode step of a batch, because the weights are read once a step whatever the batch, while experts and
caches are read per request. Sizes are those of the memory planner (memory/shards, memory/pages).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache as memoized

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.facts import AttentionCache, Cache, LatentCache, Layer, ModelFacts, Scheme
from rayllm_ctl.planner.memory import cache_shape, online_scheme
from rayllm_ctl.planner.memory.pages import CacheShape, pages_of
from rayllm_ctl.planner.memory.shards import (
    DTYPE_BYTES,
    ShardSettings,
    expert_tensors,
    head_tensors,
    layer_tensors,
)

Release = tuple[int, int, int]

_BLOCK = 1024
"""Tokens of a block where only the bytes per token count: whole strides of every compressed cache."""

WIDE = "wide"
"""Arithmetic in 16 bits: bf16, or fp16 where the GPU has no bf16."""

_NEWEST: Release = (999, 0, 0)


@dataclass(frozen=True)
class ExpertWork:
    """The routed experts of equal MoE layers, whole model: a step reads only the experts that its tokens choose."""

    layers: int
    count: int
    top_k: int
    bytes_each: float

    def bytes_read(self, tokens: float) -> float:
        """Expected bytes of the experts that `tokens` tokens touch when they choose independently and evenly."""
        untouched = (1 - self.top_k / self.count) ** tokens if self.top_k < self.count else 0.0
        return self.layers * self.count * (1 - untouched) * self.bytes_each


@dataclass(frozen=True)
class CacheReads:
    """What one GPU reads of equal layers' caches for one token: bytes per token kept, up to `limit` tokens (0: none),
    and `fixed` bytes whatever the length."""

    layers: int
    per_token: float
    limit: int
    fixed: float

    def bytes_read(self, length: float) -> float:
        tokens = min(length, self.limit) if self.limit else length
        return self.layers * (self.per_token * tokens + self.fixed)


@dataclass(frozen=True)
class ModelWork:
    """A model's work, whole model (divide by the GPUs). Weights in bytes as stored, FLOPs per token that passes.

    held_bytes: all weights but the embedding, each once; dense_bytes: as often as a step reads them. caches: every kind
    with the number of its layers, kept as `shape` says; heads: query heads. operations: FLOPs per token of the
    layers by the arithmetic that computes them (a key of GPU.flops, or WIDE); expert_operations: of these, those of
    routed experts.
    """

    held_bytes: float
    dense_bytes: float
    experts: tuple[ExpertWork, ...]
    caches: tuple[tuple[Cache, int], ...]
    shape: CacheShape
    heads: int
    operations: tuple[tuple[str, float], ...]
    expert_operations: tuple[tuple[str, float], ...]
    head_flops: float
    layers: int
    hidden: int

    def expert_bytes(self, tokens: float) -> float:
        """Weights of routed experts that are read by one step that handles `tokens` tokens."""
        return sum(group.bytes_read(tokens) for group in self.experts)

    def weight_bytes(self, tokens: float) -> float:
        """Weights read by one step that handles `tokens` tokens."""
        return self.dense_bytes + self.expert_bytes(tokens)

    def cache_bytes(self, length: float, tensor: int) -> float:
        """Cache bytes one GPU of a TP group reads for one token of a request that is `length` tokens long."""
        return sum(reads.bytes_read(length) for reads in _cache_reads(self.caches, replace(self.shape, tensor=tensor)))

    def attention_flops(self, length: float) -> float:
        """FLOPs of attention for one token that sees `length` tokens before it."""
        return sum(layers * _attention_flops(cache, self.heads, length) for cache, layers in self.caches)


def model_work(
    facts: ModelFacts, *, dtype: str | None, kv_cache_dtype: str, quantization: str | None, release: Release = _NEWEST
) -> ModelWork:
    """The work of `facts` as vLLM `release` serves it: dtype of activations and KV cache, quantization while loading
    (or None)."""
    online = None if facts.quantization or not quantization else online_scheme(quantization)
    whole = ShardSettings(1, DTYPE_BYTES.get(dtype or "", 2), online)
    held = dense = 0.0
    operations: Counter[str] = Counter()
    of_experts: Counter[str] = Counter()
    experts: Counter[ExpertWork] = Counter()
    caches: Counter[Cache] = Counter()
    kinds = {id(layer): layer for layer in facts.all_layers()}
    counts = Counter(id(layer) for layer in facts.all_layers())
    for key, layer in kinds.items():
        n = counts[key]
        own = sum(layer_tensors(replace(layer, experts=()), whole))
        held += n * own
        dense += n * layer.passes * own
        for arithmetic, parameters in _multiplied(layer, online):
            operations[arithmetic] += n * 2 * parameters
        for arithmetic, parameters in _multiplied_by_experts(layer, online):
            of_experts[arithmetic] += n * 2 * parameters
        for item in layer.experts:
            each = sum(expert_tensors(item, whole)) / item.count
            held += n * item.count * each
            experts[ExpertWork(1, item.count, item.top_k, each)] += n * layer.passes
        for cache in layer.caches:
            caches[cache] += n
    head = sum(head_tensors(facts, whole))
    return ModelWork(
        held_bytes=held + head,
        dense_bytes=dense + head,
        experts=tuple(ExpertWork(n, e.count, e.top_k, e.bytes_each) for e, n in experts.items()),
        caches=tuple(caches.items()),
        shape=cache_shape(facts, release, kv_cache_dtype, whole.dtype_bytes, _BLOCK),
        heads=facts.heads,
        operations=tuple((arithmetic, float(flops)) for arithmetic, flops in operations.items()),
        expert_operations=tuple((arithmetic, float(flops)) for arithmetic, flops in of_experts.items()),
        head_flops=2.0 * facts.vocab_size * facts.hidden_size,
        layers=sum(layer.passes for layer in facts.layers),
        hidden=facts.hidden_size,
    )


def _multiplied(layer: Layer, online: Scheme | None) -> Iterator[tuple[str, int]]:
    """The parameters that one token passes in a layer, by the arithmetic that multiplies them."""
    rest = layer.active_parameters
    for linear in layer.linears:
        passed = linear.parameters * layer.passes
        rest -= passed
        yield _arithmetic(linear.scheme or (online if linear.quantizable else None)), passed
    for arithmetic, passed in _multiplied_by_experts(layer, online):
        rest -= passed
        yield arithmetic, passed
    yield WIDE, max(0, rest)


def _multiplied_by_experts(layer: Layer, online: Scheme | None) -> Iterator[tuple[str, int]]:
    for item in layer.experts:
        passed = min(item.top_k, item.count) * item.per_expert * layer.passes
        yield _arithmetic(item.scheme or (online if item.quantizable else None)), passed


def _arithmetic(scheme: Scheme | None) -> str:
    """The type that the GPU multiplies in. Weights that are only stored in fewer bits are multiplied in 16, and so is
    gpt-oss's MXFP4: vLLM keeps its activations in bfloat16 unless told otherwise (quantization/mxfp4.py, 0.11)."""
    if scheme is None or scheme.weight_only or scheme.method == "mxfp4" or scheme.bits not in (4, 8):
        return WIDE
    if scheme.floating:
        return f"fp{scheme.bits}"
    return "int8" if scheme.bits == 8 else WIDE


@memoized
def _cache_reads(caches: tuple[tuple[Cache, int], ...], shape: CacheShape) -> tuple[CacheReads, ...]:
    """A recurrent state is read and written back with every token."""
    found = []
    for cache, layers in caches:
        pages = pages_of(cache, shape)
        if pages.blocks:
            found.append(CacheReads(layers, 0.0, 0, 2.0 * pages.bytes))
        else:
            found.append(CacheReads(layers, pages.bytes / pages.block, pages.window or pages.chunk, 0.0))
    return tuple(found)


def _attention_flops(cache: Cache, heads: int, length: float) -> float:
    """FLOPs of one layer for one query token over `length` cached ones: scores and their sum."""
    if isinstance(cache, AttentionCache):
        limit = cache.window or cache.chunk
        return 2.0 * heads * (cache.key_dim + cache.value_dim) * (min(length, limit) if limit else length)
    if isinstance(cache, LatentCache):
        return 4.0 * heads * cache.width / cache.stride * (min(length, cache.window) if cache.window else length)
    return 0.0
