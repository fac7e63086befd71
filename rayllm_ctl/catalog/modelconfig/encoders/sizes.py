"""The sizes that most encoders of images state, by their usual names."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.fields import Fields


def vit_sizes(vision: Fields, *, width: int, heads: int, middle: int, patch: int) -> tuple[int, int, int, int]:
    """Hidden width, heads, width of the feed-forward blocks and pixels of a patch's side, as most configs of
    vision transformers call them; the arguments stand where a config is silent."""
    return (
        vision.integer("hidden_size", default=width),
        vision.integer("num_attention_heads", default=heads, high=MOST_HEADS),
        vision.integer("intermediate_size", default=middle),
        vision.integer("patch_size", default=patch, high=256),
    )
