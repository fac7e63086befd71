"""On which device each part of a model lies with `device_map: auto`.

The rules of transformers 5.23 (integrations/accelerate.py): get_balanced_memory gives every GPU but the last an equal
share of the weights and 1.25 times the largest part, as far as it has that; infer_auto_device_map then fills one
device after the other and never returns to one. On the first GPU and on the CPU it leaves room for the largest part
that is still to be placed. For bitsandbytes every limit is lowered by a tenth (quantizers/quantizer_bnb_8bit.py,
adjust_max_memory). The server always passes max_memory, without which a single GPU would be filled to 90 % only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.planner.transformers.parts import ModelPart

_BUFFER = 1.25
_QUANTIZED = 0.9


@dataclass(frozen=True)
class DeviceLimits:
    """Bytes that weights may take on each of `gpus` GPUs, and on the CPU (None: no layer may lie there).

    quantized: by bitsandbytes.
    """

    gpus: int
    each: int
    cpu: int | None = None
    quantized: bool = False


def device_map(parts: Sequence[ModelPart], limits: DeviceLimits) -> tuple[int, ...] | None:
    """The device of each part, `limits.gpus` standing for the CPU; None if some part does not fit."""
    sizes = [part.weights for part in parts]
    room = _room(sizes, limits)
    # The largest of the parts after each one.
    following = [*accumulate(reversed(sizes), max, initial=0)][-2::-1]
    placed: list[int] = []
    device, used = 0, 0.0
    for size, largest in zip(sizes, following, strict=True):
        while used + size + (largest if device in (0, limits.gpus) else 0) > room[device]:
            device, used = device + 1, 0.0
            if device == len(room):
                return None
        placed.append(device)
        used += size
    return tuple(placed)


def _room(sizes: Sequence[int], limits: DeviceLimits) -> list[float]:
    """What each device takes at most."""
    each = float(limits.each)
    share = sum(sizes) // limits.gpus + int(_BUFFER * max(sizes))
    room = [min(each, share)] * (limits.gpus - 1) + [each] if limits.gpus > 1 else [each]
    room += [float(limits.cpu)] if limits.cpu is not None else []
    return [_QUANTIZED * size for size in room] if limits.quantized else room
