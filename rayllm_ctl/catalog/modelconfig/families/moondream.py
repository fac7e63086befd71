"""Moondream 3: attention beside a feed-forward block, scaled by position and content (vLLM: moondream3.py of 0.29).

Left out: the float32 biases of the experts that vLLM makes while loading (0.5 MiB a layer).
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, MOST_HEADS, Body
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS, Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Part, RotaryCache, Vector

_ROTATED = 32
"""Features of a head that are rotated, whatever the config says."""


def read_moondream(fields: Fields, builder: Builder) -> Body:
    """The first layers are dense. No format quantizes the experts, of which every rank holds some whole."""
    hidden = fields.integer("dim")
    heads = fields.integer("n_heads", high=MOST_HEADS)
    kv_heads = fields.integer("n_kv_heads", high=MOST_HEADS)
    head = max(1, hidden // heads)
    width = fields.integer("ff_dim")
    moe = fields.child("moe")
    first = moe.integer("start_layer", default=4, low=0)

    def make(index: int, pieces: LayerBuilder) -> None:
        pieces.attention(
            hidden, heads, kv_heads, head, bias=True, out_bias=True, prefix="attn.", names=("qkv_proj", "out_proj")
        )
        pieces.vectors.append(Vector(heads, heads))
        for name in ("attn.tau_wq", "attn.tau_wv"):
            pieces.linear(name, 3 * hidden, (Part(heads),), quantizable=False)
        if index < first:
            pieces.mlp(hidden, width, gated=False, bias=True, names=("fc1", "fc2"))
        else:
            _experts(moe, hidden, pieces)
        pieces.norm(hidden, bias=True)

    ends = builder.single()
    ends.norm(hidden, bias=True)
    count = fields.integer("n_layers", high=MOST_LAYERS)
    return Body(
        builder.layers(count, lambda index: index < first, make),
        hidden,
        width,
        fields.integer("vocab_size"),
        heads,
        kv_heads,
        head,
        extra=(ends.layer(),),
        head_bias=True,
        rotary=(RotaryCache(fields.integer("max_context"), _ROTATED),),
        traits=frozenset({"moe"} if first < count else ()),
    )


def _experts(moe: Fields, hidden: int, pieces: LayerBuilder) -> None:
    count = moe.integer("n_experts", default=64, high=MOST_EXPERTS)
    pieces.linear("mlp.gate", hidden, count, "none", bias=True, quantizable=False)
    top_k = moe.integer("n_experts_per_tok", default=8, high=MOST_EXPERTS)
    inner = moe.integer("expert_inner_dim", default=1024)
    pieces.experts(hidden, inner, count, top_k, router="", quantizable=False)
