"""Decoders whose layers differ in ways of their own: Llama 4, MiMo V2, Step 3.5, MiniMax M3, Laguna."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import (
    EXPERTS,
    MOST_EXPERTS,
    MOST_HEADS,
    TOP_K,
    Body,
    Sizes,
    read_sizes,
)
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.moe import first_dense, step_layers
from rayllm_ctl.catalog.modelconfig.families.windows import FULL, layer_windows
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import AttentionCache, LatentCache, Layer, Part, Vector


def final_norm(hidden: int, builder: Builder) -> tuple[Layer, ...]:
    pieces = builder.single()
    pieces.norm(hidden)
    return (pieces.layer(),)


def uneven_body(
    fields: Fields, builder: Builder, sizes: Sizes, layers: tuple[Layer, ...], intermediate: int, words: set[str]
) -> Body:
    return Body(
        layers,
        sizes.hidden,
        intermediate,
        sizes.vocab,
        sizes.heads,
        sizes.kv_heads,
        sizes.head_dim,
        extra=final_norm(sizes.hidden, builder),
        tied=fields.flag("tie_word_embeddings"),
        rotary=rotary_caches(fields, sizes.head_dim),
        traits=frozenset(words),
    )


def read_llama4(fields: Fields, builder: Builder) -> Body:
    """Llama 4: three chunked layers to one full, experts in every or every second layer, one shared expert."""
    sizes = read_sizes(fields)
    chunk = fields.integer("attention_chunk_size", default=0, low=0)
    roped = fields.integers("no_rope_layers")
    interval = fields.integer("no_rope_layer_interval", default=4)
    local = [bool(roped[i]) if i < len(roped) else (i + 1) % interval != 0 for i in range(sizes.layers)]
    windows = [(0, chunk) if chunk and is_local else FULL for is_local in local]
    listed = fields.integers("moe_layers")
    step = fields.integer("interleave_moe_layer_step", default=1, low=0)
    mixed = [i in listed if listed else step > 0 and (i + 1) % step == 0 for i in range(sizes.layers)]
    width = fields.integer("intermediate_size")
    dense_width = fields.integer("intermediate_size_mlp", default=width)

    def make(index: int, pieces: LayerBuilder) -> None:
        bias = fields.flag("attention_bias")
        pieces.attention(
            sizes.hidden, sizes.heads, sizes.kv_heads, sizes.head_dim, bias=bias, out_bias=bias, chunk=windows[index][1]
        )
        if mixed[index]:
            pieces.experts(
                sizes.hidden,
                width,
                fields.integer("num_local_experts", high=MOST_EXPERTS),
                fields.integer(*TOP_K, default=1, high=MOST_EXPERTS),
                name="feed_forward.experts",
                router="feed_forward.router",
            )
            pieces.mlp(sizes.hidden, width, prefix="feed_forward.shared_expert.")
        else:
            pieces.mlp(sizes.hidden, dense_width, prefix="feed_forward.")
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(sizes.layers, lambda index: (windows[index], mixed[index]), make)
    return uneven_body(fields, builder, sizes, layers, dense_width, {"chunked", "moe"})


def read_mimo_v2(fields: Fields, builder: Builder) -> Body:
    """MiMo V2: sliding layers with their own heads and sinks, values narrower than keys."""
    sizes = read_sizes(fields)
    slides = [bool(kind) for kind in fields.integers("hybrid_layer_pattern")]
    slides += [False] * (sizes.layers - len(slides))
    value = fields.integer("v_head_dim", default=sizes.head_dim)
    intermediate = fields.integer("intermediate_size")
    dense = [first_dense(fields, index) for index in range(sizes.layers)]

    def make(index: int, pieces: LayerBuilder) -> None:
        sliding = slides[index]
        heads, kv_heads, dim, value_dim = sizes.heads, sizes.kv_heads, sizes.head_dim, value
        if sliding:
            heads = fields.integer("swa_num_attention_heads", default=heads, high=MOST_HEADS)
            kv_heads = fields.integer("swa_num_key_value_heads", default=kv_heads, high=MOST_HEADS)
            dim = fields.integer("swa_head_dim", default=dim)
            value_dim = fields.integer("swa_v_head_dim", default=value_dim)
        sinks = "add_swa_attention_sink_bias" if sliding else "add_full_attention_sink_bias"
        pieces.attention(
            sizes.hidden,
            heads,
            kv_heads,
            dim,
            value_dim=value_dim,
            bias=fields.flag("attention_bias"),
            window=fields.integer("sliding_window", "sliding_window_size") if sliding else 0,
            sinks=fields.flag(sinks),
        )
        if dense[index]:
            pieces.mlp(sizes.hidden, intermediate)
        else:
            pieces.experts(
                sizes.hidden,
                fields.integer("moe_intermediate_size"),
                fields.integer(*EXPERTS, high=MOST_EXPERTS),
                fields.integer(*TOP_K, high=MOST_EXPERTS),
                router_float32=True,
                correction=True,
            )
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(sizes.layers, lambda index: (slides[index], dense[index]), make)
    body = uneven_body(fields, builder, sizes, layers, intermediate, {"sliding", "moe"})
    return replace(body, rotary=(body.rotary or ()) * 2)


def read_step(fields: Fields, builder: Builder) -> Body:
    """Step 3.5 and 3.7 Flash: sliding and full layers with a gate per head, experts with a shared one."""
    sizes = read_sizes(fields)
    windows = layer_windows(fields, sizes.layers)
    other = fields.child("attention_other_setting")
    intermediate = fields.integer("intermediate_size")
    listed = fields.has("moe_layers_enum")
    dense = [step_layers(fields, index) if listed else first_dense(fields, index) for index in range(sizes.layers)]

    def make(index: int, pieces: LayerBuilder) -> None:
        window, _ = windows[index]
        heads = other.integer("num_attention_heads", default=sizes.heads, high=MOST_HEADS) if window else sizes.heads
        kv_heads = sizes.kv_heads
        if window:
            kv_heads = other.integer("num_attention_groups", default=kv_heads, high=MOST_HEADS)
        pieces.attention(sizes.hidden, heads, kv_heads, sizes.head_dim, norm="head", window=window)
        if fields.flag("use_head_wise_attn_gate", default=True):
            pieces.linear("self_attn.g_proj", sizes.hidden, (Part(heads),))
        if dense[index]:
            pieces.mlp(sizes.hidden, intermediate)
        else:
            pieces.experts(
                sizes.hidden,
                fields.integer("moe_intermediate_size"),
                fields.integer("moe_num_experts", *EXPERTS, high=MOST_EXPERTS),
                fields.integer("moe_top_k", *TOP_K, high=MOST_EXPERTS),
                name="moe.experts",
                router="moe.gate",
                router_float32=fields.flag("need_fp32_gate", default=True),
                correction=fields.flag("use_moe_router_bias"),
            )
            shared = fields.integer("share_expert_dim", "share_expert_dims")
            pieces.mlp(sizes.hidden, shared, prefix="share_expert.")
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(sizes.layers, lambda index: (windows[index], dense[index]), make)
    return uneven_body(fields, builder, sizes, layers, intermediate, {"sliding", "moe"})


def read_minimax_m3(fields: Fields, builder: Builder) -> Body:
    """MiniMax M3: block-sparse attention with an index head cache, experts with a shared one."""
    sizes = read_sizes(fields)
    sparse = fields.child("sparse_attention_config")
    frequency = sparse.integers("sparse_attention_freq")
    scored = [i < len(frequency) and bool(frequency[i]) for i in range(sizes.layers)]
    index_heads = sparse.integer("sparse_num_index_heads", default=4, high=MOST_HEADS)
    index_dim = sparse.integer("sparse_index_dim", default=128)
    dense = [first_dense(fields, index) for index in range(sizes.layers)]
    width = fields.integer("moe_intermediate_size", "intermediate_size")

    def make(index: int, pieces: LayerBuilder) -> None:
        parts = [
            Part(sizes.heads, sizes.head_dim),
            Part(sizes.kv_heads, sizes.head_dim, replicable=True),
            Part(sizes.kv_heads, sizes.head_dim, replicable=True),
        ]
        if scored[index]:
            parts += [Part(index_heads, index_dim, replicable=True), Part(1, index_dim, replicable=True)]
        pieces.linear("self_attn.qkv_proj", sizes.hidden, tuple(parts), shards=("q_proj", "k_proj", "v_proj"))
        pieces.linear("self_attn.o_proj", sizes.heads * sizes.head_dim, sizes.hidden, "row", input_units=sizes.heads)
        pieces.norm(sizes.head_dim, 2)
        pieces.caches.append(AttentionCache(sizes.kv_heads, sizes.head_dim, sizes.head_dim))
        if scored[index]:
            pieces.norm(index_dim, 2)
            pieces.caches.append(LatentCache(index_dim, kind="indexer"))
        if dense[index]:
            pieces.mlp(sizes.hidden, fields.integer("dense_intermediate_size", "intermediate_size"))
        else:
            pieces.experts(
                sizes.hidden,
                width,
                fields.integer("num_local_experts", high=MOST_EXPERTS),
                fields.integer(*TOP_K, high=MOST_EXPERTS),
                name="block_sparse_moe.experts",
                router="block_sparse_moe.gate",
                router_float32=True,
                correction=True,
            )
            shared = fields.integer("n_shared_experts", default=0, low=0, high=MOST_EXPERTS)
            if shared:
                pieces.mlp(sizes.hidden, width * shared, prefix="block_sparse_moe.shared_experts.")
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(sizes.layers, lambda index: (scored[index], dense[index]), make)
    return uneven_body(fields, builder, sizes, layers, width, {"moe", "dsa"})


def read_laguna(fields: Fields, builder: Builder) -> Body:
    """Laguna: heads that vary per layer, a gate on the attention's output, experts with a shared one."""
    sizes = read_sizes(fields)
    windows = layer_windows(fields, sizes.layers)
    only_dense = fields.integers("mlp_only_layers")
    kinds = fields.texts("mlp_layer_types")
    dense = [kinds[i] == "dense" if i < len(kinds) else i in only_dense for i in range(sizes.layers)]
    intermediate = fields.integer("intermediate_size")

    def heads_of(index: int) -> int:
        return fields.integer_at(index, "num_attention_heads_per_layer", default=sizes.heads)

    def make(index: int, pieces: LayerBuilder) -> None:
        heads = heads_of(index)
        pieces.attention(
            sizes.hidden,
            heads,
            sizes.kv_heads,
            sizes.head_dim,
            bias=fields.flag("qkv_bias"),
            out_bias=fields.flag("attention_bias"),
            norm="head",
            window=windows[index][0],
        )
        gating = fields.raw("gating")
        per_element = isinstance(gating, str) and gating != "per-head"
        if gating:
            pieces.linear("self_attn.g_proj", sizes.hidden, (Part(heads, sizes.head_dim if per_element else 1),))
        if dense[index]:
            pieces.mlp(sizes.hidden, intermediate)
        else:
            pieces.experts(
                sizes.hidden,
                fields.integer("moe_intermediate_size"),
                fields.integer("num_experts", high=MOST_EXPERTS),
                fields.integer(*TOP_K, high=MOST_EXPERTS),
            )
            pieces.vectors.append(Vector(fields.integer("num_experts", high=MOST_EXPERTS), float32=True))
            pieces.mlp(sizes.hidden, fields.integer("shared_expert_intermediate_size"), prefix="mlp.shared_expert.")
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(sizes.layers, lambda index: (windows[index], dense[index], heads_of(index)), make)
    return uneven_body(fields, builder, sizes, layers, intermediate, {"moe", "sliding"})
