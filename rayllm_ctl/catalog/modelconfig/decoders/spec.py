"""What describes a decoder: for each layer a mixer of tokens and a dense or a MoE block, in one row per architecture.

Defaults are Llama's. A row states what differs, as read from vllm/model_executor/models (0.19 and 0.29).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from rayllm_ctl.catalog.modelconfig.body import EXPERTS, MOE_INTERMEDIATE, TOP_K, Body, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.decoders.patterns import WINDOW, Window
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import RotaryCache

Choice = bool | tuple[str, ...] | Callable[[Fields], bool]
"""Fixed, or decided by a field of the config: the first of these names that is there; absent is false."""

Mixer = Callable[["LayerContext"], None]
"""Adds what mixes the tokens of a layer (attention, Mamba, a delta net), with its cache."""


class MoESpec(NamedTuple):
    """Routed experts, their router, and shared experts beside them.

    dense: whether layer i is dense after all. optional: a config without experts describes a dense model.
    experts_default, top_k_default, shared_default: None if the config must state them.
    correction: a float32 bias of the router's scores.
    latent: fields for the width of a smaller space that the experts work in, with two projections around them.
    shared_total: fields for the width of all shared experts; or shared_count: how many (or fields that say it), each
    as wide as a routed one or as shared_width says.
    """

    intermediate: tuple[str, ...] = MOE_INTERMEDIATE
    experts: tuple[str, ...] = EXPERTS
    experts_default: int | None = None
    top_k: tuple[str, ...] = TOP_K
    top_k_default: int | None = 1
    optional: bool = False
    dense: Callable[[Fields, int], bool] = lambda _fields, _index: False
    name: str = "mlp.experts"
    gated: bool = True
    bias: bool = False
    router: str = "mlp.gate"
    router_bias: bool = False
    router_float32: Choice = False
    correction: Choice = False
    latent: tuple[str, ...] = ()
    latent_projections: tuple[str, str] = ("", "")
    latent_norm: bool = False
    latent_quantizable: bool = True
    shared_total: tuple[str, ...] = ()
    shared_default: int | None = 0
    shared_count: int | tuple[str, ...] = 0
    shared_width: tuple[str, ...] = ()
    shared_gate: bool = False
    shared_bias: Choice = False
    shared_name: str = "mlp.shared_experts"
    shared_projections: tuple[str, str] = ("gate_up_proj", "down_proj")
    shared_shards: tuple[str, ...] = ("gate_proj", "up_proj")


class DecoderSpec(NamedTuple):
    """A row: what sets one architecture apart from Llama.

    Layers: `kinds` names the kind of each layer and `mixers` the mixer of each kind; without them every layer has
    `mixer`. `feed_forward` takes the place of the dense and MoE blocks. `varies`: what else two layers of one kind
    differ in. `finish` adds what stands outside the layers. qk_norm: "head" (one per head size, "head-bias" with a
    bias), "full" (over all heads) or "full-replicated".
    """

    # grouped-query attention
    qkv_bias: Choice = False
    out_bias: Choice = False
    gate: Choice = False
    head_gate: Callable[[Fields, Sizes], int] | None = None
    """Features per head of a gate with a projection of its own; 0: none."""
    heads: Callable[[LayerContext], Sizes] | None = None
    """The heads of a layer, where layers differ."""
    qk_norm: str | Callable[[Fields], str] = ""
    qk_norm_if: tuple[str, ...] = ()
    sinks: Choice = False
    attention: str = "self_attn."
    projections: tuple[str, str] = ("qkv_proj", "o_proj")
    qkv_shards: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    windows: Callable[[Fields, int], Sequence[Window]] | None = None
    windowed: bool = True
    """Whether a sliding window or chunks in the config apply."""
    window_names: tuple[str, ...] = WINDOW
    window_pattern: int = 0
    window_uniform: bool = False
    # other mixers
    mixer: Mixer | None = None
    mixers: Mapping[Hashable, Mixer] | None = None
    kinds: Callable[[Fields, Sizes], Sequence[Hashable]] | None = None
    # dense and MoE blocks
    gated: bool = True
    mlp_bias: Choice = False
    mlp_out_bias: bool = False
    mlp: str = "mlp."
    mlp_twin: str = ""
    """Where a second block of the same size stands, which the tokens of images take."""
    mlp_names: tuple[str, str] = ("gate_up_proj", "down_proj")
    mlp_shards: tuple[str, ...] = ("gate_proj", "up_proj")
    intermediate: tuple[str, ...] | Callable[[Fields], int] = ()
    """Fields for the feed-forward width. (): any of the usual ones, else a multiple of hidden or the experts' width."""
    intermediate_times: int = 0
    moe: MoESpec | None = None
    feed_forward: Mixer | None = None
    # around them
    norms: int | Callable[[Fields], int] = 2
    norm_bias: bool = False
    varies: Callable[[Fields, int], Hashable] | None = None
    sizes: Callable[[Fields], Sizes] = read_sizes
    head_bias: Choice = False
    head_float32: bool = False
    tied: bool = False
    untied: bool = False
    """Whatever tie_word_embeddings says."""
    final_norm: bool = True
    embedding_norm: bool = False
    positions: int = -1
    """Rows that a learned position table has beyond max_position_embeddings; -1: there is none (ALiBi has none)."""
    rotary: Choice = True
    tables: Callable[[Fields, Sizes], tuple[RotaryCache, ...]] | None = None
    """The rotary tables, where they are not the usual ones."""
    rotary_float32: bool = False
    rotary_share: float = 1.0
    """The part of a head that is rotated where the config does not say it."""
    finish: Callable[[Body, Fields, Builder], Body] | None = None


class LayerContext(NamedTuple):
    """A layer while it is built: its row, the config, its index, kind and window, and what it holds so far."""

    spec: DecoderSpec
    fields: Fields
    sizes: Sizes
    intermediate: int
    layer_index: int
    kind: Hashable
    window: int
    chunk: int
    is_dense: bool
    layer: LayerBuilder


def choose(fields: Fields, choice: Choice) -> bool:
    if isinstance(choice, bool):
        return choice
    return fields.flag(*choice) if isinstance(choice, tuple) else choice(fields)
