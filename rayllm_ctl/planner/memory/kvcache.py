"""Blocks of the KV cache: layers in groups that share a pool of equal blocks (vLLM v1/core/kv_cache_utils.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rayllm_ctl.model.facts import Layer, StateCache
from rayllm_ctl.planner.memory.pages import CacheShape, Pages, pages_of, state_bytes
from rayllm_ctl.planner.memory.types import KVGroup


@dataclass(frozen=True)
class Rules:
    """What changed between versions about groups.

    widen: the largest kind sets the group size while it is less than this many times the smallest (0: never).
    whole_chunks: chunked layers are kept like full ones. packed: pages of several sizes stand side by side in a block.
    tokens_from_concurrency: the log prints concurrency x max_model_len rather than blocks x block size.
    null_block: one block is held back when vLLM checks that a request fits.
    """

    widen: float
    whole_chunks: bool
    packed: bool
    tokens_from_concurrency: bool
    null_block: bool


@dataclass(frozen=True)
class Layout:
    """Groups of layers and what one block costs on the fullest rank of a pipeline stage."""

    groups: tuple[tuple[Pages, int], ...]
    bytes_per_block: int
    in_flight: int
    rules: Rules

    def blocks_per_request(self, length: int) -> int:
        return sum(pages.per_request(length, self.in_flight) for pages, _ in self.groups)

    def tokens(self, blocks: int, length: int) -> int:
        """The capacity in tokens as the log prints it."""
        if not self.groups:
            return 0
        if self.rules.tokens_from_concurrency:
            return int(blocks / self.blocks_per_request(length) * length)
        return (
            blocks
            // len(self.groups)
            * min(pages.block for pages, _ in self.groups if pages.kind != "state" or len(self.groups) == 1)
        )

    def longest(self, blocks: int, limit: int) -> int:
        """The longest request, up to `limit` tokens, that `blocks` blocks hold; 0 if not even one token."""
        usable = blocks - (1 if self.rules.null_block else 0)
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.blocks_per_request(middle) <= usable:
                low = middle
            else:
                high = middle - 1
        return low

    def table(self, length: int) -> tuple[KVGroup, ...]:
        return tuple(
            KVGroup(pages.kind, count, pages.block, pages.bytes, pages.per_request(length, self.in_flight))
            for pages, count in self.groups
        )


def align_hybrid(layers: Sequence[Layer], shape: CacheShape) -> tuple[int, int]:
    """(tokens per block, padded state bytes): a hybrid's attention page is raised until a recurrent state fits.

    (0, 0) where the model has no recurrent state or no attention.
    """
    caches = {cache for layer in layers for cache in layer.caches}
    states = [state_bytes(cache, shape) for cache in caches if isinstance(cache, StateCache)]
    others = [cache for cache in caches if not isinstance(cache, StateCache)]
    if not states or not others:
        return 0, 0
    page = max(pages_of(cache, shape).bytes for cache in others)
    token = page // shape.block
    block = shape.block * -(-max(states) // page)
    return block, block * token


def group_layers(stages: Sequence[Sequence[Layer]], shape: CacheShape, rules: Rules, in_flight: int) -> Layout:
    """The layout of a model whose pipeline stages hold these layers. `bytes_per_block` is of the fullest stage."""
    found: list[tuple[int, Pages]] = [
        (stage, _pages(cache, shape, rules))
        for stage, layers in enumerate(stages)
        for layer in layers
        for cache in layer.caches
    ]
    if not found:
        return Layout((), 0, in_flight, rules)
    groups = _group([pages for _, pages in found], rules)
    largest, counts = 0, []
    for pages, members in groups:
        per_stage = [0] * len(stages)
        for index in members:
            stage = found[index][0]
            size = found[index][1].bytes if pages is None else pages.bytes
            per_stage[stage] += size
        largest = max(largest, *per_stage)
        counts.append((found[members[0]][1] if pages is None else pages, len(members)))
    return Layout(tuple(counts), largest, in_flight, rules)


def _pages(cache: object, shape: CacheShape, rules: Rules) -> Pages:
    pages = pages_of(cache, shape)  # type: ignore[arg-type]
    if pages.chunk and rules.whole_chunks:
        return Pages("full", pages.block, pages.bytes)
    return pages


Group = tuple[Pages | None, list[int]]
"""Pages that all members share (None: each has its own), and the members' places in the list of layers."""


def _group(layers: list[Pages], rules: Rules) -> list[Group]:
    everything = list(range(len(layers)))
    first = layers[0]
    if all(pages == first for pages in layers):
        return [(first, everything)]
    if len({pages.family for pages in layers}) == 1 and len({pages.block for pages in layers}) == 1:
        return [(None, everything)]
    sizes = {pages.bytes for pages in layers}
    if len(sizes) > 1 and rules.packed and not all(pages.paddable for pages in layers):
        return _packed(layers)
    if len(sizes) > 1:
        largest = max(sizes)
        layers = [pages if pages.bytes == largest else pages.resized(largest) for pages in layers]
    buckets: dict[Pages, list[int]] = {}
    for index, pages in enumerate(layers):
        buckets.setdefault(pages, []).append(index)
    smallest, widest = min(map(len, buckets.values())), max(map(len, buckets.values()))
    size = widest if rules.widen and widest < smallest * rules.widen else smallest
    groups: list[Group] = []
    for pages, members in buckets.items():
        number = -(-len(members) // size)
        groups += [(pages, members[index::number]) for index in range(number)]
    return groups


def _packed(layers: list[Pages]) -> list[Group]:
    """Pages of several sizes side by side: one group per family (DeepSeek V4)."""
    families: dict[tuple[str, int], list[int]] = {}
    for index, pages in enumerate(layers):
        families.setdefault((*pages.family,), []).append(index)
    return [(None, members) for members in families.values()]
