"""Nemotron NAS (DeciLM: Llama Nemotron Super and Ultra): blocks without attention or with narrower feed-forwards."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention_of, dense, nothing
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields

LayerKind = tuple[int, int]
"""(heads of a group that shares a KV head, feed-forward width) of a layer; 0: it has no attention, no block."""


def _kinds(fields: Fields, sizes: Sizes) -> list[LayerKind]:
    blocks = fields.objects("block_configs")
    if not blocks:
        raise fields.missing("block_configs")
    group = max(1, sizes.heads // sizes.kv_heads)
    kinds = [(_group(block, group), _width(block, sizes.hidden)) for block in blocks[: sizes.layers]]
    return kinds + [kinds[-1]] * (sizes.layers - len(kinds))


def _group(block: Fields, default: int) -> int:
    attention = block.child("attention")
    if attention.flag("no_op") or attention.flag("replace_with_linear"):
        return 0
    return attention.integer("n_heads_in_group", default=default, high=MOST_HEADS)


def _width(block: Fields, hidden: int) -> int:
    ffn = block.child("ffn")
    if ffn.flag("no_op") or ffn.flag("replace_with_linear"):
        return 0
    if ffn.has("intermediate_size"):
        return ffn.integer("intermediate_size")
    scaled = int(2 * ffn.number("ffn_mult", default=4.0) * hidden / 3)
    return -(-scaled // 256) * 256


def _sizes(fields: Fields) -> Sizes:
    """The most KV heads of any layer."""
    sizes = read_sizes(fields)
    groups = [group for group, _ in _kinds(fields, sizes) if group]
    return sizes._replace(kv_heads=max((sizes.heads // group for group in groups), default=1))


def _layer(context: LayerContext) -> None:
    sizes = context.sizes
    group, width = _kinds(context.fields, read_sizes(context.fields))[context.layer_index]
    if group:
        attention_of(context, sizes._replace(kv_heads=max(1, sizes.heads // group)))
        context.layer.norm(sizes.hidden)
    if width:
        dense(context, width)
        context.layer.norm(sizes.hidden)


ROWS = {
    "DeciLMForCausalLM": DecoderSpec(
        mixer=_layer, kinds=lambda fields, _sizes: _kinds(fields, read_sizes(fields)), feed_forward=nothing,
        windowed=False, sizes=_sizes, norms=0,
        intermediate=lambda fields: max(width for _, width in _kinds(fields, read_sizes(fields))),
    ),
}  # fmt: skip
