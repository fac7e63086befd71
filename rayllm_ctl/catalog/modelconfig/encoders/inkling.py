"""Inkling's encoders: patches folded step by step, and a table of loudness by pitch (vLLM: models/inkling/common)."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, plain, stem_of
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import MultiModalEncoder

_SOUND_TOKENS = 12000
"""The longest sound that vLLM takes (mm_preprocess.py)."""

Scale = tuple[int, int]
"""What one place of a step stands for: input positions (frames times rows times columns), and its channels."""


def read_inkling_image(source: Source) -> MultiModalEncoder | None:
    """A token for each patch of 40 pixels or so: linear layers that fold neighbours together, a norm between them.

    vLLM profiles an image of 4 x 4 patches.
    """
    vision = source.vision
    if not vision.has("decoder_dmodel"):
        return None
    out = vision.integer("decoder_dmodel")
    patch = vision.integer("patch_size", low=2, high=2**10)
    frames = vision.integer("temporal_patch_size", high=64)
    channels = vision.integer("n_channels", high=64)
    steps = vision.integer("n_layers", high=12)
    scales = _chosen(_scales(patch, frames, channels), steps, patch * patch * frames * channels)
    stem = stem_of(source)
    for index, ((before, inputs), (after, outputs)) in enumerate(pairwise(scales)):
        last = index == steps - 1
        plain(stem, f"linear_{index}", inputs * (after // before), out if last else outputs)
        if not last:
            stem.norm(outputs)
    if vision.flag("use_vision_norm"):
        stem.norm(out)
    return MultiModalEncoder(
        "image", ((stem.layer(), 1),), out, 16, 16, 16 * patch * patch * frames * channels, sharded=False
    )


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


def read_inkling_sound(source: Source) -> MultiModalEncoder | None:
    """A table with a row for each loudness of each pitch; a token's rows are added up."""
    sound: Fields = source.vision
    if not sound.has("decoder_dmodel"):
        return None
    out = sound.integer("decoder_dmodel")
    bins = sound.integer("n_mel_bins", high=2**12)
    stem = stem_of(source)
    plain(stem, "encoder", bins * sound.integer("mel_vocab_size", high=2**16), out)
    if sound.flag("use_audio_norm"):
        stem.norm(out)
    tokens = _SOUND_TOKENS
    return MultiModalEncoder("audio", ((stem.layer(), 1),), out, tokens, tokens, tokens * bins, sharded=False)
