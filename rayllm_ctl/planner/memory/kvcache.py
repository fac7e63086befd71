"""Blocks of the KV cache: layers in groups that share a pool of equal blocks (vLLM v1/core/kv_cache_utils.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.facts import Cache, Layer, StateCache
from rayllm_ctl.planner.memory.pages import CacheShape, Pages, pages_of, state_bytes
from rayllm_ctl.planner.memory.types import KVGroup

Packing = Literal["", "slots", "slots-by-size", "tuples", "whole"]
"""whole: a group per family, side by side (0.29 on). Before that families are split into groups of about as many
layers: tuples lie side by side, slots-by-size and slots give every size as many places as the largest group, or all
sizes as many as the largest of them."""


@dataclass(frozen=True)
class KVCachePolicy:
    """What changed between versions about groups.

    widen: the largest kind sets the group size while it is less than this many times the smallest (0: never).
    whole_chunks: chunked layers are kept like full ones. packed: how pages of several sizes share a block, where they
    cannot be padded to one size ("": they are padded all the same).
    tokens_from_concurrency: the log prints concurrency x max_model_len rather than blocks x block size.
    null_block: one block is held back when vLLM checks that a request fits.
    """

    widen: float
    whole_chunks: bool
    packed: Packing
    tokens_from_concurrency: bool
    null_block: bool


@dataclass(frozen=True)
class Layout:
    """Groups of layers and what one block costs on the fullest rank of a pipeline stage."""

    groups: tuple[tuple[Pages, int], ...]
    bytes_per_block: int
    in_flight: int
    policy: KVCachePolicy

    def blocks_per_request(self, length: int) -> int:
        return sum(pages.per_request(length, self.in_flight) for pages, _ in self.groups)

    def concurrency(self, blocks: int, length: int) -> float:
        """Requests of `length` tokens that `blocks` blocks hold at once."""
        return blocks / self.blocks_per_request(length)

    def tokens(self, blocks: int, length: int) -> int:
        """The capacity in tokens as the log prints it."""
        if not self.groups:
            return 0
        if self.policy.tokens_from_concurrency:
            return int(blocks / self.blocks_per_request(length) * length)
        return (
            blocks
            // len(self.groups)
            * min(pages.block for pages, _ in self.groups if pages.kind != "state" or len(self.groups) == 1)
        )

    def longest(self, blocks: int, limit: int) -> int:
        """The longest request, up to `limit` tokens, that `blocks` blocks hold; 0 if not even one token."""
        usable = blocks - (1 if self.policy.null_block else 0)
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


def group_layers(stages: Sequence[Sequence[Layer]], shape: CacheShape, policy: KVCachePolicy, in_flight: int) -> Layout:
    """The layout of a model whose pipeline stages hold these layers. `bytes_per_block` is of the fullest stage."""
    found: list[tuple[int, Pages]] = []
    known: dict[int, list[Pages]] = {}
    for stage, layers in enumerate(stages):
        for layer in layers:
            if id(layer) not in known:
                known[id(layer)] = [_pages(cache, shape, policy) for cache in layer.caches]
            found += [(stage, pages) for pages in known[id(layer)]]
    if not found:
        return Layout((), 0, in_flight, policy)
    if not all(pages.paddable for _, pages in found):
        found = list(zip((stage for stage, _ in found), _padded([pages for _, pages in found], policy), strict=True))
    groups = _group([pages for _, pages in found], policy)
    bytes_of: list[list[list[int]]] = []
    counts = []
    for pages, members in groups:
        sizes: list[list[int]] = [[] for _ in stages]
        for index in members:
            sizes[found[index][0]].append(found[index][1].bytes if pages is None else pages.bytes)
        bytes_of.append(sizes)
        counts.append((found[members[0]][1] if pages is None else pages, len(members)))
    largest = max(_block_bytes([sizes[stage] for sizes in bytes_of], policy) for stage in range(len(stages)))
    return Layout(tuple(counts), largest, in_flight, policy)


def _block_bytes(groups: Sequence[Sequence[int]], policy: KVCachePolicy) -> int:
    """Bytes of one block on a stage whose groups have pages of these sizes."""
    whole = max(map(sum, groups))
    if len({size for sizes in groups for size in sizes}) <= 1 or not policy.packed.startswith("slots"):
        return whole
    places: Counter[int] = Counter()
    for sizes in groups:
        for size, count in Counter(sizes).items():
            places[size] = max(places[size], count)
    if policy.packed == "slots":
        return sum(places) * max(places.values())
    return sum(size * count for size, count in places.items())


def _pages(cache: Cache, shape: CacheShape, policy: KVCachePolicy) -> Pages:
    pages = pages_of(cache, shape)
    if pages.chunk and policy.whole_chunks:
        return Pages("full", pages.block, pages.bytes)
    return pages


CacheGroup = tuple[Pages | None, list[int]]
"""Pages that all members share (None: each has its own), and the members' places in the list of layers."""


def _group(layers: list[Pages], policy: KVCachePolicy) -> list[CacheGroup]:
    everything = list(range(len(layers)))
    first = layers[0]
    if all(pages == first for pages in layers):
        return [(first, everything)]
    if len({pages.family for pages in layers}) == 1 and len({pages.block for pages in layers}) == 1:
        return [(None, everything)]
    sizes = {pages.bytes for pages in layers}
    if len(sizes) > 1 and policy.packed and not all(pages.paddable for pages in layers):
        return _packed(layers, policy)
    if len(sizes) > 1:
        largest = max(sizes)
        layers = [pages if pages.bytes == largest else pages.resized(largest) for pages in layers]
    buckets: dict[Pages, list[int]] = {}
    for index, pages in enumerate(layers):
        buckets.setdefault(pages, []).append(index)
    smallest, widest = min(map(len, buckets.values())), max(map(len, buckets.values()))
    size = widest if policy.widen and widest < smallest * policy.widen else smallest
    groups: list[CacheGroup] = []
    for pages, members in buckets.items():
        number = -(-len(members) // size)
        groups += [(pages, members[index::number]) for index in range(number)]
    return groups


def _packed(layers: list[Pages], policy: KVCachePolicy) -> list[CacheGroup]:
    """Pages of several sizes in one block: a group per family; before 0.29 in groups of about as many layers."""
    families: dict[tuple[str, int, int], list[int]] = {}
    for index, pages in enumerate(layers):
        families.setdefault((*pages.family, pages.block), []).append(index)
    if policy.packed == "whole":
        return _side_by_side(layers, families.values())
    main = next((key for key in families if key[0] == "full"), next(iter(families)))
    tuples = {key: max(Counter(layers[i].bytes for i in members).values()) for key, members in families.items()}
    size = _least_padding(list(tuples.values()), tuples[main])
    groups: list[CacheGroup] = []
    for key in sorted(families, key=lambda key: key != main):
        number = 1 if key == main else -(-tuples[key] // size)
        groups += _split(layers, families[key], number)
    return groups


def _split(layers: list[Pages], members: list[int], number: int) -> list[CacheGroup]:
    """`number` groups that take the members of each size in turn."""
    rank: Counter[int] = Counter()
    parts: list[list[int]] = [[] for _ in range(number)]
    for index in members:
        parts[rank[layers[index].bytes] % number].append(index)
        rank[layers[index].bytes] += 1
    return [(None, part) for part in parts]


@dataclass(frozen=True)
class _Family:
    """Layers that may share a group: their places in the list of layers, and how many there are of each page size."""

    members: list[int]
    sizes: Counter[int]
    state: bool

    @property
    def repeats(self) -> int:
        """How often it repeats one layer of every size; 0 where the sizes are not equally many."""
        counts = set(self.sizes.values())
        return counts.pop() if len(counts) == 1 else 0

    def widest(self, number: int) -> int:
        """Bytes of a block of the largest of `number` groups."""
        return sum(-(-count // number) * size for size, count in self.sizes.items())


def _side_by_side(layers: list[Pages], places: Iterable[list[int]]) -> list[CacheGroup]:
    """A group per family, but: where a family repeats a pattern of several sizes, the others that repeat are split into
    groups of about as many repeats, and states into groups that fit the block which the others need (0.29 on)."""
    families = [
        _Family(members, Counter(layers[index].bytes for index in members), layers[members[0]].kind == "state")
        for members in places
    ]
    patterns = [family.repeats for family in families if len(family.sizes) > 1 and family.repeats]
    together = _least_padding([f.repeats for f in families if f.repeats], max(patterns)) if patterns else 0
    numbers = [-(-f.repeats // together) if together and f.repeats else 1 for f in families]
    block = max(f.widest(len(f.members) if f.state else n) for f, n in zip(families, numbers, strict=True))
    groups: list[CacheGroup] = []
    for family, number in zip(families, numbers, strict=True):
        if family.state:
            fitting = max(block // layers[family.members[0]].bytes, 1)
            number = max(number, -(-len(family.members) // fitting))
        groups += _split(layers, family.members, number)
    return groups


def _least_padding(counts: Sequence[int], least: int) -> int:
    """The group size from `least` on that pads these counts least; the largest of such sizes."""
    return min(range(least, max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size))


def _padded(layers: list[Pages], policy: KVCachePolicy) -> list[Pages]:
    """States raised to the page of the attention beside them; windows to the next size that a page of the whole context
    has ("slots")."""
    sizes = sorted({pages.bytes for pages in layers if pages.family[0] == "full"})
    windows = policy.packed in ("slots", "slots-by-size")
    found = []
    for pages in layers:
        larger = [size for size in sizes if size >= pages.bytes]
        if larger and pages.kind == "state":
            pages = replace(pages, bytes=larger[-1])
        elif larger and windows and pages.family[0] != "full":
            pages = replace(pages, bytes=larger[0])
        found.append(pages)
    return found
