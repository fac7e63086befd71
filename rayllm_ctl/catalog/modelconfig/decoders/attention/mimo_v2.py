"""MiMo V2: sliding layers with heads and sinks of their own, values narrower than keys."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import read_sliding_sizes
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention_of
from rayllm_ctl.catalog.modelconfig.decoders.patterns import FULL, Window, first_dense
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches


def _windows(fields: Fields, count: int) -> list[Window]:
    pattern = fields.integers("hybrid_layer_pattern")
    slides = [index < len(pattern) and bool(pattern[index]) for index in range(count)]
    window = fields.integer("sliding_window", "sliding_window_size") if any(slides) else 0
    return [(window, 0) if sliding else FULL for sliding in slides]


def _attention(context: LayerContext) -> None:
    fields, sizes, spec = context.fields, context.sizes, context.spec
    value = fields.integer("v_head_dim", default=sizes.head_dim)
    if context.window:
        sizes = read_sliding_sizes(fields, sizes)
        value = fields.integer("swa_v_head_dim", default=value)
    sinks = ("add_swa_attention_sink_bias" if context.window else "add_full_attention_sink_bias",)
    attention_of(context._replace(spec=spec._replace(sinks=sinks)), sizes, value_dim=value)


_MIMO = DecoderSpec(
    qkv_bias=("attention_bias",), windows=_windows, mixer=_attention, intermediate=("intermediate_size",),
    tables=lambda fields, sizes: rotary_caches(fields, sizes.head_dim) * 2,
    moe=MoESpec(
        intermediate=("moe_intermediate_size",), top_k_default=None, dense=first_dense, router_float32=True,
        correction=True,
    ),
)  # fmt: skip

ROWS = {"MiMoV2FlashForCausalLM": _MIMO, "MiMoV2ForCausalLM": _MIMO}
