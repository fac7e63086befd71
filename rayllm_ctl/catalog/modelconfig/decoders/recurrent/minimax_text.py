"""MiniMax Text 01 and M1: lightning attention, every so many layers softmax attention, and experts.

Layout from vLLM's minimax_text_01.py (0.22, the last release that has it).
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import Sizes
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention, feed_forward
from rayllm_ctl.catalog.modelconfig.decoders.mixers import linear_state
from rayllm_ctl.catalog.modelconfig.decoders.patterns import listed_kinds
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.plan.facts import Part, RotaryCache, Vector


def _linear_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    """0 stands for lightning in MiniMax's own lists, "linear_attention" in transformers'; softmax where none is."""
    count = sizes.layers
    kinds = fields.integers("attn_type_list", "decoder_attention_types")
    if kinds:
        return [kinds[min(i, len(kinds) - 1)] == 0 for i in range(count)]
    return [kind == "linear_attention" for kind in listed_kinds(fields, count)] or [False] * count


def _lightning(context: LayerContext) -> None:
    sizes, layer = context.sizes, context.layer
    heads = Part(sizes.heads, sizes.head_dim)
    layer.linear("self_attn.qkv_proj", sizes.hidden, (heads, heads, heads))
    layer.linear("self_attn.output_gate", sizes.hidden, (heads,))
    layer.linear("self_attn.out_proj", heads.size, sizes.hidden, "row", input_units=sizes.heads)
    layer.vectors.append(Vector(heads.size, sizes.heads))
    layer.caches.append(linear_state(sizes.heads, sizes.head_dim))


def _experts(fields: Fields, index: int) -> int:
    return fields.integer_at(index, "num_local_experts", default=1, high=2**14)


def _shared_width(fields: Fields, index: int) -> int:
    listed = fields.raw("shared_intermediate_size")
    if isinstance(listed, list) and index >= len(listed):
        return 0
    return fields.integer_at(index, "shared_intermediate_size", default=0, low=0)


def _blocks(context: LayerContext) -> None:
    """A dense block or experts, and in some checkpoints a shared block with a learned weight beside them."""
    feed_forward(context)
    layer, hidden, shared = context.layer, context.sizes.hidden, _shared_width(context.fields, context.layer_index)
    if shared:
        layer.mlp(hidden, shared, prefix="shared_mlp.")
        layer.linear("coefficient", hidden, 1, "none", quantizable=False, float32=True)


def _rotary(fields: Fields, sizes: Sizes) -> tuple[RotaryCache, ...]:
    return () if all(_linear_layers(fields, sizes)) else rotary_caches(fields, sizes.head_dim, float32=True)


_MINIMAX = DecoderSpec(
    mixers={True: _lightning, False: attention}, kinds=_linear_layers, windowed=False, feed_forward=_blocks,
    varies=lambda fields, index: (_experts(fields, index), _shared_width(fields, index)),
    intermediate=("intermediate_size",), tables=_rotary, untied=True, head_float32=True,
    moe=MoESpec(
        intermediate=("intermediate_size",), experts=("num_local_experts",), top_k_default=None,
        dense=lambda fields, index: _experts(fields, index) == 1, name="block_sparse_moe.experts",
        router="block_sparse_moe.gate", router_float32=True,
    ),
)  # fmt: skip

ROWS = dict.fromkeys(("MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM", "MiniMaxForCausalLM"), _MINIMAX)
