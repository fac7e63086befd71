"""Zamba 2: Mamba 2 layers, and a few attention blocks that the hybrid layers use in turn.

Layout from vLLM 0.29's zamba2.py. A shared block is held once; each hybrid layer has a cache, small adapters and a
projection back of its own.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import HIDDEN, MOST_HEADS, Body, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder
from rayllm_ctl.catalog.modelconfig.decoders.decoder import nothing
from rayllm_ctl.catalog.modelconfig.decoders.mixers import Mamba2, expanded
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.plan.facts import AttentionCache, Layer, Part


def _kinds(fields: Fields) -> tuple[str, ...]:
    kinds = fields.texts("layers_block_type", longest=1024)
    if not kinds:
        raise fields.missing("layers_block_type")
    return kinds


def _sizes(fields: Fields) -> Sizes:
    """Attention sees the layer's input and the embedding side by side: twice the width."""
    kinds = _kinds(fields)
    sizes = read_sizes(fields, default_layers=len(kinds))
    if len(kinds) != sizes.layers:
        raise fields.wrong("layers_block_type", kinds, f"a list of {sizes.layers} kinds, one for each layer")
    return sizes._replace(kv_heads=sizes.heads, head_dim=max(1, 2 * sizes.hidden // sizes.heads))


_MAMBA = Mamba2(
    heads=("n_mamba_heads", 8), groups=("mamba_ngroups", 1), state=("mamba_d_state", 64), taps="mamba_d_conv",
    bias="add_bias_linear", conv_bias="use_conv_bias", inner=expanded, prefix="mamba.",
)  # fmt: skip


def _hybrid(context: LayerContext) -> None:
    sizes, layer = context.sizes, context.layer
    _adapters(context)
    layer.linear("linear", sizes.hidden, sizes.hidden, "none")
    layer.caches.append(AttentionCache(sizes.heads, sizes.head_dim, sizes.head_dim))
    _MAMBA.add(context)


def _adapters(context: LayerContext) -> None:
    """What a hybrid layer adds to the projections of its shared block, at a low rank."""
    fields, sizes, layer, intermediate = context.fields, context.sizes, context.layer, context.intermediate
    rank = fields.integer("adapter_rank", default=128)
    if fields.flag("use_shared_attention_adapter"):
        for name in ("q", "k", "v"):
            prefix = f"self_attn.linear_{name}_adapter."
            layer.linear(prefix + "A", 2 * sizes.hidden, rank)
            layer.linear(prefix + "B", rank, (Part(sizes.heads, sizes.head_dim),))
    layer.linear("feed_forward.gate_up_proj_adapter.A", sizes.hidden, rank)
    layer.linear("feed_forward.gate_up_proj_adapter.B", rank, (Part(intermediate), Part(intermediate)))


def _with_shared_blocks(body: Body, fields: Fields, builder: Builder) -> Body:
    """The shared blocks that are used at all, each with how often."""
    sizes, uses = body.sizes, _kinds(fields).count("hybrid")
    count = fields.integer("num_mem_blocks", default=1, high=MOST_HEADS)
    bias = fields.flag("add_bias_linear")
    heads = Part(sizes.heads, sizes.head_dim)
    blocks: list[Layer] = []
    for index in range(min(count, uses)):
        block = builder.single("shared_transformer.")
        shards = ("q_proj", "k_proj", "v_proj")
        block.linear("self_attn.qkv_proj", 2 * sizes.hidden, (heads, heads, heads), shards=shards)
        block.linear("self_attn.o_proj", heads.size, sizes.hidden, "row", input_units=sizes.heads)
        block.mlp(sizes.hidden, body.intermediate, bias=bias, prefix="feed_forward.")
        block.norm(2 * sizes.hidden)
        block.norm(sizes.hidden)
        block.passes = len(range(index, uses, count))
        blocks.append(block.layer())
    return body._replace(extra=(*body.extra, *blocks), tied=True)


ROWS = {
    "Zamba2ForCausalLM": DecoderSpec(
        mixers={"hybrid": _hybrid, "mamba": _MAMBA.add},
        kinds=lambda fields, _sizes: ["hybrid" if kind == "hybrid" else "mamba" for kind in _kinds(fields)],
        feed_forward=nothing, windowed=False, norms=1, sizes=_sizes,
        intermediate=lambda fields: fields.integer("intermediate_size", default=4 * fields.integer(*HIDDEN)),
        rotary=("use_mem_rope",), finish=_with_shared_blocks,
    ),
}  # fmt: skip
