"""Inkling's encoders: patches folded step by step, and a table of loudness by pitch (vLLM: models/inkling/common)."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

from rayllm_ctl.catalog.modelconfig.encoders.sizes import EncoderScope, flag, size
from rayllm_ctl.catalog.modelconfig.encoders.source import EncoderSource
from rayllm_ctl.catalog.modelconfig.encoders.spec import Dense, EncoderSpec, Norm, Step

_SOUND_TOKENS = 12000
"""The longest sound that vLLM takes (mm_preprocess.py)."""

Scale = tuple[int, int]
"""What one place of a step stands for: input positions (frames times rows times columns), and its channels."""


def _is_there(scope: EncoderScope) -> bool:
    return scope.source.vision.has("decoder_dmodel")


# vLLM profiles an image of 4 x 4 patches.
_IMAGE = EncoderSpec(
    {
        "width": size("decoder_dmodel"), "patch": size("patch_size", low=2, high=2**10),
        "frames": size("temporal_patch_size"), "channels": size("n_channels", high=64),
    },
    (16, 16, "patch*patch*frames*channels*16"), projector=(Norm("width", when=flag("use_vision_norm")),),
    sharded=False, present=_is_there,
)  # fmt: skip


def inkling_image(source: EncoderSource) -> EncoderSpec:
    """A token for each patch of 40 pixels or so: linear layers that fold neighbours together, a norm between them."""
    scope = EncoderScope(source, _IMAGE.sizes)
    if not _is_there(scope):
        return _IMAGE
    scales = _scales(scope["patch"], scope["frames"], scope["channels"])
    steps = source.vision.integer("n_layers", high=12)
    chosen = _chosen(scales, steps, scope["patch*patch*frames*channels"])
    folds = [(inputs * (after // before), outputs) for (before, inputs), (after, outputs) in pairwise(chosen)]
    stem: list[Step] = []
    for inputs, outputs in folds[:-1]:
        stem += [Dense(inputs, outputs), Norm(outputs)]
    return _IMAGE._replace(stem=(*stem, Dense(folds[-1][0], "width")))


def _scales(patch: int, frames: int, channels: int) -> list[Scale]:
    """Every fold that is possible, the largest prime factor first: first of rows and columns, then of frames."""
    found: list[Scale] = [(1, channels)]
    side = depth = 1
    for factor in reversed(_factors(patch)):
        side *= factor
        found.append((side * side, _to_64(side * side * channels)))
    for factor in reversed(_factors(frames)):
        depth *= factor
        found.append((depth * side * side, _to_64(depth * side * side * channels)))
    return found


def _chosen(scales: list[Scale], steps: int, whole: int) -> list[Scale]:
    """`steps` folds out of the possible ones: those nearest to equal ratios, from the first to the last."""
    ideal = [math.log(whole) * index / steps for index in range(steps + 1)]
    off = [[abs(wanted - math.log(positions)) for positions, _ in scales] for wanted in ideal]
    if steps >= len(scales):
        picked = [row.index(min(row)) for row in off]
    else:
        choices = combinations(range(len(scales)), steps + 1)
        picked = list(min(choices, key=lambda chosen: sum(row[i] for row, i in zip(off, chosen, strict=True))))
    picked[0], picked[-1] = 0, len(scales) - 1
    return [scales[index] for index in picked]


def _factors(number: int) -> list[int]:
    """Prime factors in rising order."""
    found, divisor = [], 2
    while number > 1:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return found


def _to_64(size: int) -> int:
    return -(-size // 64) * 64


# A table with a row for each loudness of each pitch; a token's rows are added up
INKLING_SOUND = EncoderSpec(
    {
        "width": size("decoder_dmodel"), "bins": size("n_mel_bins"), "levels": size("mel_vocab_size", high=2**16),
    },
    (_SOUND_TOKENS, _SOUND_TOKENS, f"bins*{_SOUND_TOKENS}"),
    (Dense("bins*levels", "width"), Norm("width", when=flag("use_audio_norm"))),
    modality="audio", sharded=False, present=_is_there,
)  # fmt: skip
