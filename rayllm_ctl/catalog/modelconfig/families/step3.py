"""Step 3: queries from a narrow latent, one KV head for all of them, and experts (step3_text.py of vLLM 0.29)."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import MOST_EXPERTS, Body, read_sizes
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.moe import step_layers
from rayllm_ctl.catalog.modelconfig.families.uneven import uneven_body
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import AttentionCache, Part


def read_step3(fields: Fields, builder: Builder) -> Body:
    """The body of Step 3. What makes the latent, the key and the value is whole on every rank."""
    sizes = replace(read_sizes(fields), kv_heads=1, head_dim=fields.integer("head_dim", default=256))
    latent = fields.integer("share_q_dim", default=2048, low=0) or sizes.head_dim
    intermediate = fields.integer("intermediate_size")
    dense = [step_layers(fields, index) for index in range(sizes.layers)]

    def make(index: int, pieces: LayerBuilder) -> None:
        parts = (Part(latent), Part(1, sizes.head_dim), Part(1, sizes.head_dim))
        shards = ("q_proj", "k_proj", "v_proj")
        pieces.linear("self_attn.qkv_proj", sizes.hidden, parts, "none", shards=shards)
        units = sizes.heads
        pieces.linear("self_attn.o_proj", units * sizes.head_dim, sizes.hidden, "row", input_units=units)
        pieces.norm(latent)
        pieces.linear("self_attn.wq", latent, (Part(sizes.heads, sizes.head_dim),))
        pieces.caches.append(AttentionCache(1, sizes.head_dim, sizes.head_dim))
        if dense[index]:
            pieces.mlp(sizes.hidden, intermediate)
        else:
            pieces.experts(
                sizes.hidden,
                fields.integer("moe_intermediate_size"),
                fields.integer("moe_num_experts", high=MOST_EXPERTS),
                fields.integer("moe_top_k", high=MOST_EXPERTS),
                name="moe.experts",
                router="moe.gate",
            )
            pieces.mlp(sizes.hidden, fields.integer("share_expert_dim"), prefix="share_expert.")
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(sizes.layers, lambda index: dense[index], make)
    body = uneven_body(fields, builder, sizes, layers, intermediate, {"moe"})
    positions = fields.integer("max_position_embedding", default=65536)
    return replace(body, rotary=rotary_caches(fields, sizes.head_dim, positions=positions))
