"""What a decoder's reader returns, and the names under which configs state the same sizes."""

from __future__ import annotations

from typing import NamedTuple

from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import Layer, RotaryCache

HIDDEN = ("hidden_size", "d_model", "n_embd", "dim", "model_dim")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads", "decoder_attention_heads")
KV_HEADS = (
    "num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "multi_query_group_num", "num_attention_groups",
    "kv_n_heads",
)  # fmt: skip
INTERMEDIATE = (
    "intermediate_size", "ff_intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "inner_dim",
    "decoder_ffn_dim", "mlp_dim", "ff_dim",
)  # fmt: skip
EXPERTS = (
    "num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "num_routed_experts", "n_experts",
)  # fmt: skip
TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "moe_top_k", "top_k_experts")
MOE_INTERMEDIATE = ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size", "intermediate_size")

MOST_HEADS = 2**14
MOST_EXPERTS = 2**14


class Sizes(NamedTuple):
    """The sizes that nearly every decoder has. With latent attention, kv_heads is 1 and head_dim the cached width."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int


class Body(NamedTuple):
    """The decoder of a model. The fields are as in ModelFacts."""

    layers: tuple[Layer, ...]
    sizes: Sizes
    intermediate: int
    extra: tuple[Layer, ...] = ()
    shared: tuple[Layer, ...] = ()
    tied: bool = False
    head_bias: bool = False
    head_float32: bool = False
    whole_embedding: bool = False
    rotary: tuple[RotaryCache, ...] = ()
    draft_layers: tuple[Layer, ...] = ()
    token_buffers: int = 0
    streams: int = 1
    single_stage: bool = False


def read_sizes(fields: Fields, *, default_layers: int | None = None) -> Sizes:
    """Sizes under any of their usual names; KV heads default to the heads, the head size to hidden / heads."""
    hidden = fields.integer(*HIDDEN)
    heads = fields.integer(*HEADS, high=MOST_HEADS)
    kv_heads = fields.integer(*KV_HEADS, default=heads, high=MOST_HEADS)
    head_dim = fields.integer("head_dim", "hidden_size_per_head", "kv_channels", default=max(1, hidden // heads))
    layers, vocab = read_layers(fields, default=default_layers), fields.integer("padded_vocab_size", "vocab_size")
    return Sizes(hidden, layers, heads, kv_heads, head_dim, vocab)


def read_layers(fields: Fields, *, default: int | None = None) -> int:
    return fields.integer(*LAYERS, default=default, high=MOST_LAYERS)


def read_sliding_sizes(fields: Fields, sizes: Sizes) -> Sizes:
    """Sizes of sliding layers that have heads of their own."""
    return sizes._replace(
        heads=fields.integer("swa_num_attention_heads", default=sizes.heads, high=MOST_HEADS),
        kv_heads=fields.integer("swa_num_key_value_heads", default=sizes.kv_heads, high=MOST_HEADS),
        head_dim=fields.integer("swa_head_dim", default=sizes.head_dim),
    )


def read_even_sizes(fields: Fields) -> Sizes:
    """Sizes of a model whose heads always share the hidden size evenly."""
    sizes = read_sizes(fields)
    return sizes._replace(head_dim=max(1, sizes.hidden // sizes.heads))
