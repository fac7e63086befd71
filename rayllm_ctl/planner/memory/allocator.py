"""What tensors cost in torch's CUDA caching allocator: "Model loading took" counts its blocks, not the tensors.

Rules of c10/cuda/CUDACachingAllocator.cpp: sizes are rounded up to 512 B; up to 1 MiB they share segments of 2 MiB,
below 10 MiB segments of 20 MiB, from there on a tensor gets its own segment rounded up to 2 MiB. A rest of more than
1 MiB is split off and serves later tensors; a smaller one stays with the tensor and counts.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

_MIB = 2**20
_SMALL = _MIB
_LARGE = 10 * _MIB
_SHARED_SEGMENT = 20 * _MIB
_ROUNDING = 2 * _MIB


def allocated(sizes: Iterable[int]) -> int:
    """Bytes that the allocator counts for tensors of these sizes, made in this order."""
    total = 0
    free: list[int] = []
    for size in sizes:
        size = max(512, -(-size // 512) * 512)
        if size <= _SMALL:
            total += size
            continue
        place = bisect_left(free, size)
        if place < len(free):
            block = free.pop(place)
        else:
            block = _SHARED_SEGMENT if size < _LARGE else -(-size // _ROUNDING) * _ROUNDING
        rest = block - size
        if rest > _SMALL:
            insort(free, rest)
            total += size
        else:
            total += block
    return total
