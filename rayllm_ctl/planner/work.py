"""What one token costs: bytes read and floating-point operations per GPU, from the facts of a model.

Counted per decode step of a batch, because the weights are read once a step whatever the batch, while experts and
caches are read per request.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rayllm_ctl.model.facts import AttentionCache, Cache, LatentCache, Layer, Linear, ModelFacts, Scheme, StateCache

_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}


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
class CacheWork:
    """A cache of equal layers, whole model: bytes per token kept, up to `limit` tokens (0: none), and `fixed` bytes.

    shared: not divided by tensor parallelism. operations: FLOPs per query token and cached token.
    """

    layers: int
    per_token: float
    limit: int
    fixed: float
    shared: bool
    heads: int
    operations: float

    def tokens(self, length: float) -> float:
        return min(length, self.limit) if self.limit else length


@dataclass(frozen=True)
class ModelWork:
    """A model's work, whole model (divide by the GPUs). Weights in bytes as stored, FLOPs per token that passes.

    held_bytes: all weights but the embedding, each once; dense_bytes: as often as a step reads them.
    """

    held_bytes: float
    dense_bytes: float
    experts: tuple[ExpertWork, ...]
    caches: tuple[CacheWork, ...]
    flops_per_token: float
    head_flops: float
    layers: int
    hidden: int
    fp8: bool
    fp4: bool

    def weight_bytes(self, tokens: float) -> float:
        """Weights read by one step that handles `tokens` tokens."""
        return self.dense_bytes + sum(group.bytes_read(tokens) for group in self.experts)

    def cache_bytes(self, length: float, tensor: int) -> float:
        """Cache bytes one GPU of a TP group reads for one token of a request that is `length` tokens long."""
        total = 0.0
        for cache in self.caches:
            ranks = 1 if cache.shared else min(tensor, cache.heads) if cache.heads else tensor
            total += cache.layers * (cache.per_token * cache.tokens(length) + cache.fixed) / ranks
        return total

    def attention_flops(self, length: float) -> float:
        """FLOPs of attention for one token that sees `length` tokens before it."""
        return sum(cache.layers * cache.operations * cache.tokens(length) for cache in self.caches)


def model_work(facts: ModelFacts, *, dtype: str, kv_cache_dtype: str, quantization: str | None) -> ModelWork:
    """The work of `facts` as it is served: dtype of activations and KV cache, quantization while loading (or None)."""
    wide = _BYTES.get(dtype, 2.0)
    kv = 1.0 if "fp8" in kv_cache_dtype or "int8" in kv_cache_dtype else 0.5 if "fp4" in kv_cache_dtype else wide
    online = 0.0
    if quantization and not facts.quantization:
        online = 0.5 if quantization == "bitsandbytes" else 1.0
    held = dense = flops = 0.0
    experts: Counter[ExpertWork] = Counter()
    caches: Counter[Cache] = Counter()
    schemes: list[Scheme] = []
    kinds = {id(layer): layer for layer in facts.all_layers()}
    counts = Counter(id(layer) for layer in facts.all_layers())
    for key, layer in kinds.items():
        n = counts[key]
        own = _dense_bytes(layer, wide, online)
        held += n * own
        dense += n * layer.passes * own
        flops += n * 2.0 * layer.active_parameters
        for item in layer.experts:
            each = item.per_expert * _bytes_each(item.scheme, wide, online if item.quantizable else 0.0)
            held += n * item.count * each
            experts[ExpertWork(1, item.count, item.top_k, each)] += n * layer.passes
        for cache in layer.caches:
            caches[cache] += n
        schemes += [linear.scheme for linear in layer.linears if linear.scheme]
        schemes += [group.scheme for group in layer.experts if group.scheme]
    head = facts.vocab_size * facts.hidden_size
    head_bytes = head * _bytes_each(facts.head_scheme, 4.0 if facts.head_float32 else wide, 0.0)
    return ModelWork(
        held_bytes=held + head_bytes,
        dense_bytes=dense + head_bytes,
        experts=tuple(ExpertWork(n, e.count, e.top_k, e.bytes_each) for e, n in experts.items()),
        caches=tuple(_cache_work(cache, n, facts, kv, wide) for cache, n in caches.items()),
        flops_per_token=flops,
        head_flops=2.0 * head,
        layers=sum(layer.passes for layer in facts.layers),
        hidden=facts.hidden_size,
        fp8=online == 1.0 or any(s.floating and s.bits == 8 and not s.weight_only for s in schemes),
        fp4=any(s.floating and s.bits == 4 and not s.weight_only for s in schemes),
    )


def _dense_bytes(layer: Layer, wide: float, online: float) -> float:
    linears = sum(item.parameters * _bytes_of(item, wide, online) for item in layer.linears)
    return linears + sum(vector.size * (4.0 if vector.float32 else wide) for vector in layer.vectors)


def _bytes_of(linear: Linear, wide: float, online: float) -> float:
    if linear.float32:
        return 4.0
    return _bytes_each(linear.scheme, wide, online if linear.quantizable else 0.0)


def _bytes_each(scheme: Scheme | None, wide: float, online: float) -> float:
    """Bytes per weight; scales add a few per cent at most, which is far inside the band of any throughput figure."""
    return scheme.bits / 8 if scheme else online or wide


def _cache_work(cache: Cache, layers: int, facts: ModelFacts, kv: float, wide: float) -> CacheWork:
    if isinstance(cache, AttentionCache):
        width = cache.heads * (cache.key_dim + cache.value_dim)
        operations = 2.0 * facts.heads * (cache.key_dim + cache.value_dim)
        return CacheWork(layers, width * kv, cache.window or cache.chunk, 0.0, False, cache.heads, operations)
    if isinstance(cache, LatentCache):
        packed = (cache.fp8_bytes or cache.fixed_bytes) if kv == 1.0 else cache.fixed_bytes
        per_token = (packed or cache.width * kv) / cache.stride
        return CacheWork(layers, per_token, cache.window, 0.0, True, 0, 4.0 * facts.heads * cache.width / cache.stride)
    return CacheWork(layers, 0.0, 0, 2 * _state_bytes(cache, wide), False, 0, 0.0)


def _state_bytes(cache: StateCache, wide: float) -> float:
    groups = cache.conv_groups[0] * cache.conv_groups[1] if cache.conv_groups else 0
    conv = (cache.conv[0] + groups) * cache.conv[1] * wide if cache.conv else 0.0
    ssm = 1.0
    for size in cache.ssm or ():
        ssm *= size
    return conv + (ssm * (4.0 if cache.ssm_float32 else wide) if cache.ssm else 0.0)
