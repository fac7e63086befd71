"""Sequences that are computed together, as tensors: how two batches become one, and how rows leave."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import pad
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from rayllm_ctl.serving.generation.choosing import Chooser
from rayllm_ctl.serving.generation.sequences import Generation

BY_COLUMN = ("attention_mask", "position_ids")
"""Arguments of a step that have a column for each token so far."""

_CACHES = ("past_key_values", "cache_params")
"""Under which name a model has its cache; the second is that of Mamba's family."""

_COLUMNS = (DynamicLayer, DynamicSlidingWindowLayer)

KNOWN = {*BY_COLUMN, *_CACHES, "use_cache", "logits_to_keep"}


class Rows:
    """Sequences that are computed together, padded on the left: a Batch.

    ids: all tokens so far, of which the last has not been computed.
    arguments: of the model, as `generate` carries them from step to step.
    """

    def __init__(
        self, generations: list[Generation], choosers: list[Chooser], ids: torch.Tensor, arguments: dict[str, Any]
    ) -> None:
        self.generations = generations
        self.choosers = choosers
        self.ids = ids
        self.arguments = arguments

    @property
    def cache(self) -> Any:
        """Keys and values of past tokens, or what the model has in their place."""
        return next((self.arguments[name] for name in _CACHES if name in self.arguments), None)

    @property
    def joinable(self) -> bool:
        """Whether the cache has a column for each token, or for each of a window, and thus may be padded."""
        return (
            type(self.cache) is DynamicCache
            and not self.cache.offloading
            and all(type(layer) in _COLUMNS for layer in self.cache.layers)
            and "attention_mask" in self.arguments
            and set(self.arguments) <= KNOWN
            and all(self.arguments[name].ndim == 2 for name in BY_COLUMN if name in self.arguments)
        )


def stack(parts: list[torch.Tensor], left: list[int], dim: int = -1) -> torch.Tensor:
    """One below the other, each with `left` columns of zeros in front; `dim` is that of the columns."""
    behind = (0, 0) * (-dim - 1)
    padded = [pad(part, (*behind, columns, 0)) if columns else part for part, columns in zip(parts, left, strict=True)]
    return torch.cat(padded, dim=0)


def stack_layers(first: Any, second: Any) -> None:
    """Add the second layer of a cache to the first, and empty it, so that its memory is free for the next layer.

    The last column of both is the last token that was computed.
    """
    sizes = [layer.keys.shape[-2] for layer in (first, second)]
    left = [max(sizes) - size for size in sizes]
    first.keys, second.keys = stack([first.keys, second.keys], left, -2), None
    first.values, second.values = stack([first.values, second.values], left, -2), None
    if type(first) is DynamicSlidingWindowLayer:
        first.cumulative_length = max(first.cumulative_length, second.cumulative_length)


def trim(batch: Rows) -> None:
    """Remove the columns that are padding in all rows."""
    if not batch.joinable:
        return
    columns = int((batch.arguments["attention_mask"].cumsum(dim=-1) == 0).sum(dim=-1).min())
    if columns == 0:
        return
    batch.ids = batch.ids[:, columns:]
    for name in BY_COLUMN:
        if name in batch.arguments:
            batch.arguments[name] = batch.arguments[name][:, columns:]
    for layer in batch.cache.layers:
        if layer.is_initialized:
            kept = layer.keys.shape[-2] - columns
            if type(layer) is DynamicSlidingWindowLayer:
                layer.cumulative_length -= columns
                kept = min(layer.keys.shape[-2], layer.cumulative_length)
            layer.keys = layer.keys[:, :, -kept:].contiguous()
            layer.values = layer.values[:, :, -kept:].contiguous()
