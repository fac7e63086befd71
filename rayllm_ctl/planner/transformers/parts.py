"""What Transformers holds of a model, in the parts that `device_map` does not split.

Weights: the tensors of the catalog, as stored or in the data type that they are loaded in. bitsandbytes quantizes
modules of type torch.nn.Linear except the output head and what is tied to it (transformers 5.23,
integrations/bitsandbytes.py replace_with_bnb_linear, quantizers/base.py get_keys_to_not_convert). Embeddings and norms
are none, nor are routed experts since transformers 5, which keeps those of a layer in two large parameters
(models/qwen3_moe, models/mixtral): they stay in the data type.

Cache: DynamicCache keeps keys and values of all tokens in the data type of the model; layers with a sliding window keep
those in the window (transformers 5.23, cache_utils.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache as memoized

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.facts import AttentionCache, Cache, LatentCache, Layer, ModelFacts, Scheme
from rayllm_ctl.planner.memory.pages import CacheShape, state_bytes
from rayllm_ctl.planner.memory.shards import (
    DTYPE_BYTES,
    ShardSettings,
    expert_tensors,
    linear_tensors,
    scheme_tensors,
    vector_bytes,
)

SCHEMES = {
    "bitsandbytes-8bit": Scheme("bitsandbytes", 8, scale_bytes=4, weight_only=True, online=True),
    "bitsandbytes-4bit": Scheme("bitsandbytes", 4, group=64, scale_bytes=4, weight_only=True, online=True),
}
"""8 bits: a float32 scale for each output (SCB). 4 bits: one for each block of 64 weights (absmax, bitsandbytes'
default block size on NVIDIA GPUs, without double quantization)."""


@dataclass(frozen=True)
class ModelPart:
    """A part that stays on one device. cache: bytes of one request at full length; layers: decoder layers in it."""

    weights: int
    cache: int = 0
    layers: int = 0


@dataclass(frozen=True)
class Loading:
    """How a model is loaded: its data type, a quantization of the engine or None, and the length of a request."""

    dtype: str
    quantization: str | None
    context: int

    @property
    def element(self) -> int:
        """Bytes of a value in the data type."""
        return DTYPE_BYTES.get(self.dtype, 2)


def parts_of(facts: ModelFacts, loading: Loading) -> tuple[ModelPart, ...]:
    """The parts in the order in which device_map places them: as the modules of the model stand."""
    return tuple(_parts(facts, loading))


def _parts(facts: ModelFacts, loading: Loading) -> Iterator[ModelPart]:
    shape = ShardSettings(1, loading.element, SCHEMES.get(loading.quantization or ""))
    known: dict[int, ModelPart] = {}
    for encoder in facts.encoders:
        for layer, count in encoder.blocks:
            yield from (ModelPart(_weights(layer, shape)),) * count
    yield ModelPart(facts.vocab_size * facts.hidden_size * loading.element)
    yield from (ModelPart(_weights(layer, shape)) for layer in facts.shared)
    for layer in facts.layers:
        if id(layer) not in known:
            held = sum(_cache_bytes(one, loading.context, loading.element) for one in layer.caches)
            known[id(layer)] = ModelPart(_weights(layer, shape), held, 1)
        yield known[id(layer)]
    yield from (ModelPart(_weights(layer, shape)) for layer in facts.extra)
    if not facts.tied_embeddings:
        yield ModelPart(_head(facts, loading.element))


def _weights(layer: Layer, shape: ShardSettings) -> int:
    plain = ShardSettings(1, shape.dtype_bytes)
    return (
        sum(size for linear in layer.linears for size in linear_tensors(linear, shape))
        + sum(size for experts in layer.experts for size in expert_tensors(experts, plain))
        + sum(vector_bytes(vector, plain) for vector in layer.vectors)
    )


def _head(facts: ModelFacts, element: int) -> int:
    bias = facts.vocab_size * element if facts.head_bias else 0
    if facts.head_scheme is not None:
        return sum(scheme_tensors(facts.head_scheme, facts.hidden_size, facts.vocab_size)) + bias
    return facts.vocab_size * facts.hidden_size * element + bias


@memoized
def _cache_bytes(cache: Cache, context: int, element: int) -> int:
    """Bytes of one layer's cache for one request of `context` tokens."""
    if isinstance(cache, AttentionCache):
        kept = min(cache.window or cache.chunk or context, context)
        return kept * cache.heads * (cache.key_dim + cache.value_dim) * element
    if isinstance(cache, LatentCache):
        kept = min(cache.window or context, context)
        return -(-kept // cache.stride) * cache.width * element
    return state_bytes(cache, CacheShape(1, element, element, 1))
