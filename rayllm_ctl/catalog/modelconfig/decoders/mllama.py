"""Llama 3.2 Vision: Llama 3.1 with layers that attend to the image and keep no keys of the text (mllama.py)."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import Sizes
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention, attention_of
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields


def _crossing_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    crossing = fields.integers("cross_attention_layers") or (3, 8, 13, 18, 23, 28, 33, 38)
    return [index in crossing for index in range(sizes.layers)]


def _cross_attention(context: LayerContext) -> None:
    spec = context.spec._replace(qk_norm="head", attention="cross_attn.")
    attention_of(context._replace(spec=spec), context.sizes, cached=False)


ROWS = {
    "MllamaForCausalLM": DecoderSpec(
        mixers={True: _cross_attention, False: attention}, kinds=_crossing_layers, windowed=False,
        intermediate=("intermediate_size",),
    ),
}  # fmt: skip
