"""A model as the planner sees it: its tensors, how vLLM splits and quantizes them, and what each layer caches.

Everything here is derived from a model's config.json by rules (catalog/modelconfig); nothing is stored per model.
Sizes are in elements (not bytes) and for the whole model (not per GPU) unless a field says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

Split = Literal["column", "row", "none"]
"""How tensor parallelism divides a linear layer: its outputs, its inputs, or not at all (replicated)."""


@dataclass(frozen=True)
class Part:
    """Outputs of one projection inside a fused linear layer: `units` pieces (heads, say) of `unit` features each.

    Tensor parallelism divides the units. `replicable`: where TP exceeds the units (KV heads), each rank keeps one.
    """

    units: int
    unit: int = 1
    replicable: bool = False

    @property
    def size(self) -> int:
        return self.units * self.unit

    def divides(self, tp: int) -> bool:
        """Whether vLLM can split these units over `tp` ranks."""
        return self.units % tp == 0 or (self.replicable and tp % self.units == 0)

    def per_rank(self, tp: int) -> int:
        """Features on the fullest rank; an uneven split is rounded up, as a bound."""
        return max(1, -(-self.units // tp)) * self.unit


@dataclass(frozen=True)
class Scheme:
    """How the weights of one linear layer are stored when they are quantized.

    method: vLLM's name (fp8, awq, gptq, compressed-tensors, modelopt, modelopt_fp4, mxfp4, bitsandbytes, ...).
    bits: per weight; floating: fp8/fp4 rather than integers.
    group: inputs that share a scale (0: one scale per output channel, -1: one per tensor).
    block: (outputs, inputs) that share a scale for block-quantized fp8, else None.
    scale_bytes: bytes of one scale; zero_points: stored beside the scales (packed to `bits`).
    scale_per_shard: a per-tensor scale for each fused projection. input_scale: static activation scales are stored.
    online: the checkpoint is not quantized; vLLM quantizes while loading.
    """

    method: str
    bits: int
    floating: bool = False
    group: int = 0
    block: tuple[int, int] | None = None
    scale_bytes: int = 4
    zero_points: bool = False
    input_scale: bool = False
    global_scale: bool = False
    activation_order: bool = False
    weight_only: bool = False
    online: bool = False


@dataclass(frozen=True)
class Linear:
    """One linear layer of vLLM's model. `name` is its path below the layer (self_attn.qkv_proj)."""

    name: str
    inputs: int
    parts: tuple[Part, ...]
    split: Split = "column"
    bias: bool = False
    scheme: Scheme | None = None
    quantizable: bool = True
    input_units: int = 0
    """Units of the inputs that a row split divides (heads); 0: every input is a unit."""
    float32: bool = False

    @property
    def outputs(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def parameters(self) -> int:
        return self.inputs * self.outputs + (self.outputs if self.bias else 0)


@dataclass(frozen=True)
class Experts:
    """The routed experts of one MoE layer, as vLLM fuses them: w13 (E, 2 I, H) and w2 (E, H, I).

    quantizable: False where vLLM keeps them as they are, whatever it quantizes while loading.
    """

    count: int
    top_k: int
    hidden: int
    intermediate: int
    gated: bool = True
    bias: bool = False
    scheme: Scheme | None = None
    name: str = "mlp.experts"
    quantizable: bool = True

    @property
    def per_expert(self) -> int:
        biases = ((2 if self.gated else 1) * self.intermediate + self.hidden) if self.bias else 0
        return self.hidden * self.intermediate * (3 if self.gated else 2) + biases

    @property
    def parameters(self) -> int:
        return self.count * self.per_expert


@dataclass(frozen=True)
class Vector:
    """A small tensor: a norm, a convolution, decay rates. `units`: what TP divides; 0 means that it is replicated."""

    size: int
    units: int = 0
    float32: bool = False


@dataclass(frozen=True)
class AttentionCache:
    """Keys and values of a softmax attention layer. `window`: sliding; `chunk`: chunked local; both 0: full.

    block: tokens per block that the kind fixes (0: as all), for what is kept in the model's own type.
    """

    heads: int
    key_dim: int
    value_dim: int
    window: int = 0
    chunk: int = 0
    block: int = 0


@dataclass(frozen=True)
class LatentCache:
    """One vector per token shared by all heads (MLA, a DSA indexer): tensor parallelism does not divide it.

    width: elements; rope_width: those of them that carry the position.
    kind: mla, indexer, or of DeepSeek V4: window, compressed, state, or of Qwen 4: pooled, ring (one block a request).
    fixed_bytes: bytes of an entry whatever the KV dtype (0: width x dtype); fp8_bytes: of a packed fp8 entry.
    stride: tokens per entry. window: only the last tokens are kept. block: tokens per block that the kind fixes.
    alignment: pages are padded to a multiple of so many bytes.
    """

    width: int
    kind: str = "mla"
    fixed_bytes: int = 0
    fp8_bytes: int = 0
    stride: int = 1
    window: int = 0
    block: int = 0
    alignment: int = 0
    rope_width: int = 0


@dataclass(frozen=True)
class StateCache:
    """A recurrent state (Mamba, gated delta net, short convolution): one per request, whatever its length.

    kind: vLLM's name of the mixer (mamba1, mamba2, gdn, kda, short_conv, linear).
    conv: (channels, taps - 1) of the convolution state; TP divides the channels.
    conv_groups: (groups, channels of each) that Mamba 2 convolves besides; padded up to TP that does not divide them.
    ssm: shape of the state; TP divides its first size. replicated: every rank keeps the whole state.
    """

    kind: str
    conv: tuple[int, int] | None = None
    ssm: tuple[int, ...] | None = None
    ssm_float32: bool = False
    conv_groups: tuple[int, int] | None = None
    replicated: bool = False


Cache = AttentionCache | LatentCache | StateCache


@dataclass(frozen=True)
class Layer:
    """One decoder (or encoder) layer: what it holds and what it caches.

    passes: how often a token goes through it (0: a table of which it looks up a row).
    """

    linears: tuple[Linear, ...] = ()
    experts: tuple[Experts, ...] = ()
    vectors: tuple[Vector, ...] = ()
    caches: tuple[Cache, ...] = ()
    passes: int = 1

    @cached_property
    def parameters(self) -> int:
        vectors = sum(vector.size for vector in self.vectors)
        return sum(x.parameters for x in self.linears) + sum(x.parameters for x in self.experts) + vectors

    @cached_property
    def active_parameters(self) -> int:
        """Parameters that one token passes through, as often as it does: of the experts, top_k."""
        idle = sum((x.count - min(x.top_k, x.count)) * x.per_expert for x in self.experts)
        return (self.parameters - idle) * self.passes


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
    """What a checkpoint says about its quantization, for the checks of method against version and GPU."""

    method: str
    description: str
    weight_bits: int
    kv_cache_dtype: str | None = None


@dataclass(frozen=True)
class ModelFacts:
    """A model. `architecture` is config.json's; `max_model_len` what vLLM derives (rope scaling applied)."""

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
    embedding_width: int = 0
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
    """moe, mla, dsa, hybrid, sliding, chunked, multimodal, attention-free: words for messages and rules."""

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
        embedding = self.vocab_size * (self.embedding_width or self.hidden_size)
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
