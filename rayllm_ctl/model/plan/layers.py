"""One layer of a model: what it holds, how tensor parallelism and quantization treat it, and what it caches.

Sizes are in elements (not bytes) and for the whole model (not per GPU) unless a field says otherwise.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from rayllm_ctl.frozen import dataclass

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
    online: the checkpoint is not quantized; vLLM quantizes while loading. experts_only: of experts alone.
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
    experts_only: bool = False


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
