"""Llama 4: three chunked layers to one full, experts in every or every second layer, one shared expert."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.decoders.patterns import FULL, Window
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields


def _chunks(fields: Fields, count: int) -> list[Window]:
    chunk = fields.integer("attention_chunk_size", default=0, low=0)
    roped = fields.integers("no_rope_layers")
    interval = fields.integer("no_rope_layer_interval", default=4)
    local = [bool(roped[i]) if i < len(roped) else (i + 1) % interval != 0 for i in range(count)]
    return [(0, chunk) if is_local else FULL for is_local in local]


def _dense_width(fields: Fields) -> int:
    return fields.integer("intermediate_size_mlp", default=fields.integer("intermediate_size"))


def _dense(fields: Fields, index: int) -> bool:
    listed = fields.integers("moe_layers")
    step = fields.integer("interleave_moe_layer_step", default=1, low=0)
    return index not in listed if listed else not step or (index + 1) % step != 0


ROWS = {
    "Llama4ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",), out_bias=("attention_bias",), windows=_chunks, mlp="feed_forward.",
        intermediate=_dense_width,
        moe=MoESpec(
            intermediate=("intermediate_size",), experts=("num_local_experts",), dense=_dense,
            name="feed_forward.experts", router="feed_forward.router", shared_count=1,
            shared_name="feed_forward.shared_expert",
        ),
    ),
}  # fmt: skip
