"""The size of a checkpoint against what its config describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rayllm_ctl.model.kube.quantities import gib
from rayllm_ctl.model.plan.facts import Layer, Linear, ModelFacts, Part
from rayllm_ctl.planner.memory.shards import DTYPE_BYTES, ShardSettings, expert_tensors, layer_tensors, whole_weights

_SAME = 0.02
"""Of what is described: tables that vLLM computes, the padding of formats, and what is too small to matter."""

_TYPES = ("bfloat16", "float32")
"""By size. The files of plain weights may be in either: vLLM converts them while it reads them."""

_WIDTHS = 64
"""Widths of what is not known are multiples of it, so that TP divides them."""


def unexplained_bytes(facts: ModelFacts, checkpoint_bytes: int | None) -> int:
    """Bytes of a checkpoint beyond what its config describes (below 0: short of it); 0 where both agree to 2 %, or the
    size is not known.

    Some tools leave layers in 16 bits and state it nowhere in the config, others list modules that no reader knows;
    vLLM learns of it from the files. Layers for multi-token prediction, and an output head that repeats the embedding,
    may be in the files, and are not loaded; nor is the part that speaks of a model of which vLLM serves the rest.
    """
    if checkpoint_bytes is None:
        return 0
    if not facts.quantization and any(not _difference(facts, checkpoint_bytes, dtype) for dtype in _TYPES):
        return 0
    return _difference(facts, checkpoint_bytes, facts.dtype)


def fitted(facts: ModelFacts, checkpoint_bytes: int | None) -> ModelFacts:
    """`facts`, and if these are generic and the size of the checkpoint is known, with layers that fill it.

    What is missing stands beside the layers that were read. Where they are larger than the checkpoint, their experts
    shrink, or equal layers of its size take their place.
    """
    if "generic" not in facts.traits or not checkpoint_bytes:
        return facts
    rest = unexplained_bytes(facts, checkpoint_bytes)
    if rest < 0 and not facts.tied_embeddings:
        tied = replace(facts, tied_embeddings=True)
        if not unexplained_bytes(tied, checkpoint_bytes):
            facts, rest = tied, 0
    weighed = f"its weights take the {gib(checkpoint_bytes)} GiB of its files"
    facts = replace(facts, assumed=(*facts.assumed, weighed), traits=facts.traits | {"weighed"})
    if rest < 0:
        facts = _shrunk(facts, rest)
        rest = checkpoint_bytes - whole_weights(facts, facts.dtype)
    width = rest // _element(facts) // facts.hidden_size // facts.layer_count // _WIDTHS * _WIDTHS
    if width <= 0:
        return facts
    filling = Linear("layer", facts.hidden_size, (Part(width),), quantizable=False)
    return _changed(facts, lambda layer: replace(layer, linears=(*layer.linears, filling)))


def _shrunk(facts: ModelFacts, rest: int) -> ModelFacts:
    """`facts` with experts that are smaller by at least as much, or with nothing in its layers but their caches."""
    shape = ShardSettings(1, _element(facts))
    routed = sum(sum(expert_tensors(one, shape)) for layer in facts.layers for one in layer.experts)
    if routed + rest <= 0:
        return _changed(facts, lambda layer: Layer(caches=layer.caches, passes=layer.passes))

    def smaller(layer: Layer) -> Layer:
        widths = (one.intermediate * (routed + rest) // routed // _WIDTHS * _WIDTHS for one in layer.experts)
        experts = zip(layer.experts, widths, strict=True)
        return replace(layer, experts=tuple(replace(one, intermediate=max(width, 1)) for one, width in experts))

    return _changed(facts, smaller)


def _changed(facts: ModelFacts, change: Callable[[Layer], Layer]) -> ModelFacts:
    """`facts` with its layers changed; those that are one object stay one."""
    changed = {id(layer): change(layer) for layer in {id(layer): layer for layer in facts.layers}.values()}
    return replace(facts, layers=tuple(changed[id(layer)] for layer in facts.layers))


def _difference(facts: ModelFacts, stored: int, dtype: str) -> int:
    """Bytes of the files beyond all that may be in them, or short of all that must be."""
    element = DTYPE_BYTES.get(dtype, 2)
    least = most = whole_weights(facts, dtype)
    most += sum(sum(layer_tensors(layer, ShardSettings(1, element))) for layer in facts.draft_layers)
    if facts.tied_embeddings:
        most += facts.vocab_size * facts.hidden_size * element
    if stored > most * (1 + _SAME):
        return 0 if "part" in facts.traits else stored - most
    return stored - least if stored < least * (1 - _SAME) else 0


def _element(facts: ModelFacts) -> int:
    return DTYPE_BYTES.get(facts.dtype, 2)
