"""Granite Speech: a Conformer, and a querying transformer over windows of its frames (vLLM: granite_speech.py).

Tensor parallelism divides the Conformer's feed-forward blocks only.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS
from rayllm_ctl.catalog.modelconfig.encoders.blocks import Source, depth_of, plain, stem_of
from rayllm_ctl.catalog.modelconfig.encoders.qformer import crossing, query_layer
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Layer, MultiModalEncoder, Vector

_FRAMES = 25000
"""Frames of the longest sound that vLLM profiles: 8 million samples, two mel frames of 160 each."""


def read_granite_speech(source: Source) -> MultiModalEncoder:
    """A guess at the text in the middle of the Conformer is fed back; each window becomes a few queries."""
    sound, former = source.config.child("encoder_config"), source.config.child("projector_config")
    width = sound.integer("hidden_dim", default=1024)
    words = sound.integer("output_dim", default=42, high=2**24)
    inner = former.integer("hidden_size", default=768)
    window = source.config.integer("window_size", default=15, high=2**14)
    queries = max(1, window // source.config.integer("downsample_rate", default=5, high=2**14))
    stem = stem_of(source)
    bins = sound.integer("input_dim", default=160, high=2**14)
    plain(stem, "input_linear", bins, width, bias=True)
    plain(stem, "out", width, words, bias=True, split=True)
    stem.linear("out_mid", words, width, "row", bias=True, quantizable=False)
    plain(stem, "query", queries, inner)
    stem.norm(inner, bias=True)
    plain(stem, "linear", inner, source.hidden, bias=True)
    depth = depth_of(former, default=12)
    crossings = -(-depth // former.integer("cross_attention_frequency", default=2, high=MOST_LAYERS))
    return MultiModalEncoder(
        "audio",
        (
            (_conformer(source, sound, width), depth_of(sound, "num_layers", default=10)),
            (query_layer(source, former, inner), depth),
            (crossing(source, inner, former.integer("encoder_hidden_size", default=1408)), crossings),
            (stem.layer(), 1),
        ),
        width,
        -(-_FRAMES // window) * queries,
        _FRAMES,
        _FRAMES * bins,
    )


def _conformer(source: Source, sound: Fields, width: int) -> Layer:
    """Attention with relative positions between two feed-forward blocks, then a convolution."""
    heads = sound.integer("num_heads", default=8, high=MOST_HEADS)
    head = sound.integer("dim_head", default=128, high=2**16)
    middle = width * sound.integer("feedforward_mult", default=4, high=2**10)
    channels = width * sound.integer("conv_expansion_factor", default=2, high=2**10)
    layer = stem_of(source)
    for prefix in ("ff1.", "ff2."):
        layer.mlp(width, middle, gated=False, bias=True, prefix=prefix, quantizable=False)
    plain(layer, "attn.to_q", width, heads * head)
    plain(layer, "attn.to_kv", width, 2 * heads * head)
    plain(layer, "attn.to_out", heads * head, width, bias=True)
    layer.vectors.append(Vector((2 * sound.integer("max_pos_emb", default=512) + 1) * head))
    plain(layer, "conv.up_conv", width, 2 * channels, bias=True)
    plain(layer, "conv.depth_conv", sound.integer("conv_kernel_size", default=15, high=2**10), channels)
    plain(layer, "conv.down_conv", channels, width, bias=True)
    layer.norm(channels, bias=True)
    layer.norm(width, 5, bias=True)
    return layer.layer()
