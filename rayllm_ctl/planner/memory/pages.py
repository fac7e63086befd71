"""One layer's pages of the KV cache on one rank, by kind (vLLM v1/kv_cache_interface.py)."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.facts import AttentionCache, Cache, LatentCache, StateCache


@dataclass(frozen=True)
class Pages:
    """How one layer keeps its cache. `bytes` of a block; `window` and `chunk` as in the facts; `blocks`: fixed per
    request (recurrent states), else 0. `family`: layers of one family can share a group whatever their page size.
    replicated: every rank keeps the whole state."""

    kind: str
    block: int
    bytes: int
    window: int = 0
    chunk: int = 0
    blocks: int = 0
    paddable: bool = True
    replicated: bool = False

    @property
    def family(self) -> tuple[str, int]:
        """Layers of one family need the same number of token slots."""
        if self.kind in ("full", "mla", "indexer", "compressed", "pooled"):
            return ("full", self.block)
        return (f"whole {self.kind}" if self.replicated else self.kind, self.window or self.chunk)

    def resized(self, size: int) -> Pages:
        """The same layer with pages of `size` bytes: more tokens in a block where that works out, else padding."""
        if self.kind == "state" or size % self.bytes:
            return replace(self, bytes=size)
        return replace(self, block=self.block * (size // self.bytes), bytes=size)

    def per_request(self, length: int, in_flight: int) -> int:
        """Blocks that one request of `length` tokens holds at most; `in_flight`: tokens scheduled but not settled."""
        if self.blocks:
            return self.blocks
        if self.window:
            return -(-min(self.window - 1 + in_flight, length) // self.block) + 1
        if self.chunk:
            return -(-min(self.chunk + in_flight, length) // self.block)
        return -(-length // self.block)


@dataclass(frozen=True)
class CacheShape:
    """What decides page sizes besides the layer: TP ranks, bytes per cached and per state element, tokens per block.

    fp8: the cache holds fp8. state_blocks: recurrent states a request holds. ssm_bytes: 0 for the layer's own choice.
    """

    tensor: int
    element_bytes: float
    model_bytes: int
    block: int
    fp8: bool = False
    packed_latent: bool = False
    state_blocks: int = 1
    ssm_bytes: int = 0
    speculative: int = 0


def pages_of(cache: Cache, shape: CacheShape) -> Pages:
    """The pages of one cache on one rank."""
    if isinstance(cache, AttentionCache):
        return _attention(cache, shape)
    if isinstance(cache, LatentCache):
        return _latent(cache, shape)
    return Pages("state", 1, state_bytes(cache, shape), blocks=shape.state_blocks, replicated=cache.replicated)


def _attention(cache: AttentionCache, shape: CacheShape) -> Pages:
    heads = max(1, -(-cache.heads // shape.tensor))
    block = cache.block or shape.block
    token = heads * (cache.key_dim + cache.value_dim) * (shape.model_bytes if cache.block else shape.element_bytes)
    kind = "window" if cache.window else "chunk" if cache.chunk else "full"
    return Pages(kind, block, int(token * block), cache.window, cache.chunk)


FP8_LATENT_BYTES = 656
"""A token of DeepSeek's packed fp8 layout of 512 + 64: 512 fp8, 4 float32 scales, 64 rope values in bf16
(fp8_ds_mla; vLLM kv_cache_interface.py)."""


_OWN_TYPE = ("indexer", "pooled", "ring")
"""Kinds that are kept in the model's own type whatever the cache's."""


def _latent(cache: LatentCache, shape: CacheShape) -> Pages:
    if cache.kind == "ring":
        held = -(-(cache.block + shape.speculative) // cache.block) * cache.block
        return Pages("ring", held, held * cache.width * shape.model_bytes, blocks=1, paddable=False)
    block = cache.block or shape.block
    if cache.fixed_bytes:
        entry: float = cache.fixed_bytes
    elif cache.fp8_bytes and shape.fp8:
        entry = cache.fp8_bytes
    elif cache.kind == "mla" and shape.fp8 and shape.packed_latent:
        entry = FP8_LATENT_BYTES
    else:
        entry = cache.width * (shape.model_bytes if cache.kind in _OWN_TYPE else shape.element_bytes)
    size = int(-(-block // cache.stride) * entry)
    if cache.alignment:
        size = -(-size // cache.alignment) * cache.alignment
    kind = "window" if cache.window else cache.kind
    return Pages(kind, block, size, cache.window, paddable=False)


def state_bytes(cache: StateCache, shape: CacheShape) -> int:
    """Bytes of one recurrent state on one rank (layers/mamba/mamba_utils.py)."""
    total, tensor = 0, 1 if cache.replicated else shape.tensor
    if cache.conv is not None:
        channels, taps = cache.conv
        per_rank = -(-channels // tensor)
        if cache.conv_groups is not None:
            groups, width = cache.conv_groups
            padded = groups if groups % tensor == 0 else tensor
            per_rank += -(-padded // tensor) * width
        total += per_rank * (taps + shape.speculative) * shape.model_bytes
    if cache.ssm is not None:
        element = shape.ssm_bytes or (4 if cache.ssm_float32 else shape.model_bytes)
        total += max(1, -(-cache.ssm[0] // tensor)) * prod(cache.ssm[1:]) * element
    return total
