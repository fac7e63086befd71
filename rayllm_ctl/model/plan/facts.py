"""A model as the planner sees it: its layers (model/plan/layers.py), its encoders and what stands around them.

Everything here is derived from a model's config.json by rules (catalog/modelconfig); nothing is stored per model.
Sizes are in elements (not bytes) and for the whole model (not per GPU) unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cached_property

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.layers import (
    AttentionCache,
    Cache,
    Experts,
    LatentCache,
    Layer,
    Linear,
    Part,
    Scheme,
    Split,
    StateCache,
    Vector,
)

__all__ = [
    "AttentionCache",
    "Cache",
    "Experts",
    "LatentCache",
    "Layer",
    "Linear",
    "ModelFacts",
    "MultiModalEncoder",
    "Part",
    "Quantization",
    "RotaryCache",
    "Scheme",
    "Split",
    "StateCache",
    "Vector",
    "VideoProfile",
]


@dataclass(frozen=True)
class VideoProfile:
    """Videos of a model of which vLLM profiles one as long as a request may be, in steps of a frame or of a pair.

    tokens, patches, pixels: of a step. longest: steps of the longest one (0: no limit). beside: tokens left for others.
    """

    tokens: int
    patches: int
    pixels: int
    longest: int = 0
    beside: int = 0

    def steps(self, context: int) -> int:
        """Steps of the longest video in a request of `context` tokens."""
        most = max(0, context - self.beside) // max(1, self.tokens)
        return max(1, min(most, self.longest) if self.longest else most)


@dataclass(frozen=True)
class MultiModalEncoder:
    """A vision or audio encoder with its projector: blocks with their counts; `sharded`: TP divides it.

    tokens: the most embeddings that one item (an image) gives the decoder; patches: encoder positions of such an item;
    pixels: its input values. masked: it attends under a mask over all patches of a batch, which is held whole.
    kept: layers whose outputs are all held until the last one has run. video: where a video may be the largest item.
    levels: further embeddings of every token, one for each deepstack layer.
    """

    modality: str
    blocks: tuple[tuple[Layer, int], ...]
    hidden: int
    tokens: int = 0
    patches: int = 0
    pixels: int = 0
    sharded: bool = True
    masked: bool = False
    kept: int = 0
    video: VideoProfile | None = None
    levels: int = 0

    @property
    def parameters(self) -> int:
        return sum(layer.parameters * count for layer, count in self.blocks)


@dataclass(frozen=True)
class RotaryCache:
    """A cos/sin table that vLLM keeps on the GPU: positions x width elements, `count` of them.

    sections: of a rope in three dimensions (images, video), whose table vLLM makes four times as long before 0.32.
    each_layer: every layer has one of its own, where others share it.
    """

    positions: int
    width: int
    float32: bool = False
    count: int = 1
    sections: bool = False
    each_layer: bool = False


@dataclass(frozen=True)
class Quantization:
    """What a checkpoint says about its quantization, for the checks of method against version and GPU.

    assumed: what the plan takes for the form of the weights where config.json states none. needs: what only some
    releases of vLLM take, by the names in planner/engine/quantization.py.
    """

    method: str
    description: str
    weight_bits: int
    kv_cache_dtype: str | None = None
    assumed: str = ""
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ModelFacts:
    """A model. `architecture` is config.json's; `max_model_len` what vLLM derives (rope scaling applied). `dtype` is
    empty if the config states none: vLLM then looks at the files of the weights (config/model.py _find_dtype)."""

    architecture: str
    model_type: str
    dtype: str
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    heads: int
    kv_heads: int
    head_dim: int
    max_model_len: int
    layers: tuple[Layer, ...]
    tied_embeddings: bool = False
    whole_embedding: bool = False
    """Every tensor-parallel rank holds the whole embedding table."""
    head_bias: bool = False
    head_float32: bool = False
    head_scheme: Scheme | None = None
    extra: tuple[Layer, ...] = ()
    """What belongs to no layer: final norm, position table, projections around the decoder."""
    shared: tuple[Layer, ...] = ()
    """What the layers use in turn, so that every pipeline stage holds it: banks of experts."""
    rotary: tuple[RotaryCache, ...] = ()
    encoders: tuple[MultiModalEncoder, ...] = ()
    draft_layers: tuple[Layer, ...] = ()
    """Multi-token-prediction layers: loaded only with speculative decoding."""
    token_buffers: int = 0
    """Bytes per token of a batch that the model holds from loading on (indices that layers share, streams)."""
    streams: int = 1
    """Parallel residual streams (hyper-connections of DeepSeek V4)."""
    single_stage: bool = False
    """vLLM does not split this model into pipeline stages, though it splits others of its architecture."""
    quantization: Quantization | None = None
    traits: frozenset[str] = field(default_factory=frozenset)
    """moe, mla, dsa, hybrid, sliding, chunked, multimodal, attention-free: words for messages and rules; generic: of an
    architecture that is not known here, read by the fields that most configs share; part: of a checkpoint that holds
    more than vLLM serves, such as what speaks; whole-images: a step must hold all tokens of an image or a video."""
    assumed: tuple[str, ...] = ()
    """What was taken for granted while a generic model was read, and what is not known of it."""

    @cached_property
    def layer_count(self) -> int:
        return len(self.layers)

    def all_layers(self) -> Iterator[Layer]:
        yield from self.layers
        yield from self.shared
        yield from self.extra

    @cached_property
    def parameters(self) -> int:
        """Parameters of the whole model, encoders included, draft layers not."""
        embedding = self.vocab_size * self.hidden_size
        head = 0 if self.tied_embeddings else self.vocab_size * self.hidden_size
        return (
            embedding + head + sum(x.parameters for x in self.all_layers()) + sum(x.parameters for x in self.encoders)
        )

    @cached_property
    def active_parameters(self) -> int:
        """Parameters that one generated token passes through: no embedding table, of the experts top_k."""
        return self.vocab_size * self.hidden_size + sum(layer.active_parameters for layer in self.all_layers())

    @cached_property
    def moe(self) -> bool:
        return any(layer.experts for layer in (*self.layers, *self.shared))

    @cached_property
    def multimodal(self) -> bool:
        return bool(self.encoders)
