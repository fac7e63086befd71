"""Decoders with multi-head latent attention: DeepSeek V2 to V3.2, Kimi K2, GLM-5, LongCat and kin.

Layouts from vLLM's deepseek_v2.py, models/deepseek_v32 and minicpm3.py (0.19, 0.29).
"""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import (
    EXPERTS,
    HEADS,
    HIDDEN,
    MOST_EXPERTS,
    MOST_HEADS,
    TOP_K,
    Body,
    read_layers,
)
from rayllm_ctl.catalog.modelconfig.builder import MOST_LAYERS, Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.families.decoder import read_decoder
from rayllm_ctl.catalog.modelconfig.families.mixers import kimi_delta
from rayllm_ctl.catalog.modelconfig.families.moe import MIXTURES, first_dense
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.facts import AttentionCache, LatentCache, Layer, Part, Vector


class LatentSizes:
    """The sizes of one latent attention."""

    def __init__(self, fields: Fields) -> None:
        self.hidden = fields.integer(*HIDDEN)
        self.heads = fields.integer(*HEADS, high=MOST_HEADS)
        self.q_lora = fields.integer("q_lora_rank", "attention_q_lora_dim", default=0, low=0)
        self.kv_lora = fields.integer("kv_lora_rank", "attention_kv_lora_dim")
        self.nope = fields.integer("qk_nope_head_dim", "attention_qk_dim")
        self.rope = fields.integer("qk_rope_head_dim", "attention_qk_rope_dim", low=0)
        self.value = fields.integer("v_head_dim", "attention_v_dim", default=self.nope)

    @property
    def width(self) -> int:
        """Elements per token in the cache."""
        return self.kv_lora + self.rope


def latent_attention(
    sizes: LatentSizes, pieces: LayerBuilder, *, prefix: str = "self_attn.", out: str = "o_proj", cached: bool = True
) -> None:
    """The projections down to the latent and up again, and the latent cache (one for all heads)."""
    key = sizes.nope + sizes.rope
    down = sizes.kv_lora + sizes.rope
    if sizes.q_lora:
        parts = (Part(sizes.q_lora), Part(down))
        shards = ("q_a_proj", "kv_a_proj_with_mqa")
        pieces.linear(prefix + "fused_qkv_a_proj", sizes.hidden, parts, "none", shards=shards)
        pieces.norm(sizes.q_lora)
        pieces.linear(prefix + "q_b_proj", sizes.q_lora, (Part(sizes.heads, key),))
    else:
        pieces.linear(prefix + "q_proj", sizes.hidden, (Part(sizes.heads, key),))
        pieces.linear(prefix + "kv_a_proj_with_mqa", sizes.hidden, down, "none")
    pieces.norm(sizes.kv_lora)
    pieces.linear(prefix + "kv_b_proj", sizes.kv_lora, (Part(sizes.heads, sizes.nope + sizes.value),))
    pieces.linear(prefix + out, sizes.heads * sizes.value, sizes.hidden, "row", input_units=sizes.heads)
    if cached:
        pieces.caches.append(LatentCache(sizes.width, rope_width=sizes.rope))


def indexer(fields: Fields, sizes: LatentSizes, pieces: LayerBuilder, *, prefix: str = "self_attn.indexer.") -> None:
    """DeepSeek sparse attention: a small scorer per layer with its own fp8 cache (a scale per 128 values)."""
    heads, dim = fields.integer("index_n_heads", high=MOST_HEADS), fields.integer("index_head_dim")
    pieces.linear(prefix + "wq_b", sizes.q_lora or sizes.hidden, heads * dim, "none")
    parts = (Part(dim), Part(heads))
    pieces.linear(
        prefix + "wk_weights_proj", sizes.hidden, parts, "none", shards=("wk", "weights_proj"), quantizable=False
    )
    pieces.vectors += [Vector(dim, float32=True)] * 2
    pieces.caches.append(LatentCache(dim, kind="indexer", fixed_bytes=dim + -(-dim // 128) * 4))


def index_layers(fields: Fields, count: int) -> list[bool]:
    """Which layers score for themselves: GLM-5.2 lets several layers share one choice of tokens."""
    kinds = fields.texts("indexer_types")
    if kinds:
        return [kinds[min(i, len(kinds) - 1)] != "shared" for i in range(count)]
    pattern = fields.raw("index_topk_pattern")
    if isinstance(pattern, str) and pattern:
        return [pattern[i] != "S" if i < len(pattern) else True for i in range(count)]
    every = fields.integer("index_topk_freq", default=1)
    offset = fields.integer("index_skip_topk_offset", default=2, low=-count, high=4096)
    return [every == 1 or max(i - offset + 1, 0) % every == 0 for i in range(count)]


def routed(
    fields: Fields, hidden: int, index: int, pieces: LayerBuilder, *, correction: bool, router_float32: bool = False
) -> None:
    """DeepSeek's MoE: routed experts, shared ones beside them, a float32 score bias."""
    width = fields.integer_at(index, "moe_intermediate_size", "expert_ffn_hidden_size")
    pieces.experts(
        hidden,
        width,
        fields.integer(*EXPERTS, high=MOST_EXPERTS),
        fields.integer(*TOP_K, default=1, high=MOST_EXPERTS),
        correction=correction,
        router_float32=router_float32,
    )
    shared = fields.integer("n_shared_experts", "num_shared_experts", default=0, low=0, high=MOST_EXPERTS)
    if shared:
        pieces.mlp(hidden, width * shared, prefix="mlp.shared_experts.")


def read_deepseek(fields: Fields, builder: Builder) -> Body:
    """DeepSeek V2, V3, R1, V3.1, V3.2; Kimi K2; GLM-4.7 Flash and GLM-5; Mistral Large 3; openPangu; AX-K1.

    DeepSeek-VL2 tiny says with qk_nope_head_dim 0 that its attention is an ordinary one.
    """
    if not fields.integer("qk_nope_head_dim", default=1, low=0):
        return read_decoder(MIXTURES["DeepseekForCausalLM"], fields, builder)
    sizes, count = LatentSizes(fields), read_layers(fields)
    sparse = fields.has("index_topk")
    scoring = index_layers(fields, count) if sparse else [False] * count
    experts = fields.integer(*EXPERTS, default=0, low=0, high=MOST_EXPERTS)
    dense = [not experts or first_dense(fields, index) for index in range(count)]
    intermediate = fields.integer("intermediate_size", "ffn_hidden_size")
    correction = fields.text("topk_method") == "noaux_tc" or fields.flag("moe_router_enable_expert_bias")

    def make(index: int, pieces: LayerBuilder) -> None:
        latent_attention(sizes, pieces)
        if scoring[index]:
            indexer(fields, sizes, pieces)
        if dense[index]:
            pieces.mlp(sizes.hidden, intermediate)
        else:
            routed(fields, sizes.hidden, index, pieces, correction=correction)
        pieces.norm(sizes.hidden, 2)

    layers = builder.layers(count, lambda index: (dense[index], scoring[index]), make)
    words = {"mla"} | ({"moe"} if experts else set()) | ({"dsa"} if sparse else set())
    return Body(
        layers,
        sizes.hidden,
        intermediate,
        fields.integer("vocab_size"),
        sizes.heads,
        1,
        sizes.width,
        extra=(_final_norm(sizes.hidden, builder),),
        tied=fields.flag("tie_word_embeddings"),
        rotary=rotary_caches(fields, sizes.rope, width=sizes.rope),
        token_buffers=4 * fields.integer("index_topk") if sparse else 0,
        traits=frozenset(words),
    )


def read_minicpm3(fields: Fields, builder: Builder) -> Body:
    """MiniCPM 3: latent projections, but keys and values are cached per head."""
    sizes, count = LatentSizes(fields), read_layers(fields)
    intermediate = fields.integer("intermediate_size")
    key = sizes.nope + sizes.rope

    def make(_index: int, pieces: LayerBuilder) -> None:
        latent_attention(sizes, pieces, cached=False)
        pieces.caches.append(AttentionCache(sizes.heads, key, key))
        pieces.mlp(sizes.hidden, intermediate)
        pieces.norm(sizes.hidden, 2)

    return Body(
        builder.layers(count, lambda _index: 0, make),
        sizes.hidden,
        intermediate,
        fields.integer("vocab_size"),
        sizes.heads,
        sizes.heads,
        key,
        extra=(_final_norm(sizes.hidden, builder),),
        tied=fields.flag("tie_word_embeddings", default=True),
        rotary=rotary_caches(fields, sizes.rope, width=sizes.rope),
    )


def read_longcat(fields: Fields, builder: Builder) -> Body:
    """LongCat Flash: two attentions and two dense blocks per layer around one MoE with idle experts."""
    return _longcat(fields, builder, read_layers(fields))


def read_longcat_ngram(fields: Fields, builder: Builder) -> Body:
    """LongCat Flash Lite: embeddings of runs of tokens beside the usual one (longcat_flash_ngram.py of 0.29).

    Its `num_layers` are vLLM's layers; num_hidden_layers counts their two halves.
    """
    body = _longcat(fields, builder, fields.integer("num_layers", "num_hidden_layers", high=MOST_LAYERS))
    ratio = fields.integer("ngram_vocab_size_ratio", default=0, low=0)
    if not ratio:
        return body
    longest = fields.integer("emb_neighbor_num", low=2, high=64)
    tables = fields.integer("emb_split_num", high=64) * (longest - 1)
    width = body.hidden // tables
    rows = tables * ratio * body.vocab + tables * tables
    table = builder.single("ngram_embeddings.")
    table.linear("oe_embedder", width, -(-rows // 64) * 64, quantizable=False)
    table.passes = 0
    ends = builder.single("ngram_embeddings.")
    ends.linear("oe_projection", tables * width, body.hidden, "none", quantizable=False)
    return replace(body, extra=(*body.extra, table.layer(), ends.layer()))


def _longcat(fields: Fields, builder: Builder, count: int) -> Body:
    sizes = LatentSizes(fields)
    intermediate = fields.integer("ffn_hidden_size", "intermediate_size")
    experts = fields.integer("n_routed_experts", "num_experts", high=MOST_EXPERTS)
    idle = fields.integer("zero_expert_num", default=0, low=0, high=MOST_EXPERTS)

    def make(_index: int, pieces: LayerBuilder) -> None:
        for half in ("0", "1"):
            latent_attention(sizes, pieces, prefix=f"self_attn.{half}.")
            pieces.mlp(sizes.hidden, intermediate, prefix=f"mlps.{half}.")
        pieces.linear("mlp.router.classifier", sizes.hidden, experts + idle, "none", quantizable=False, float32=True)
        pieces.vectors.append(Vector(experts + idle, float32=True))
        top_k = fields.integer("moe_topk", "num_experts_per_tok", default=1, high=MOST_EXPERTS)
        pieces.experts(
            sizes.hidden, fields.integer("expert_ffn_hidden_size", "moe_intermediate_size"), experts, top_k, router=""
        )
        pieces.norm(sizes.hidden, 4)

    return Body(
        builder.layers(count, lambda _index: 0, make),
        sizes.hidden,
        intermediate,
        fields.integer("vocab_size"),
        sizes.heads,
        1,
        sizes.width,
        extra=(_final_norm(sizes.hidden, builder),),
        tied=fields.flag("tie_word_embeddings"),
        rotary=rotary_caches(fields, sizes.rope, width=sizes.rope),
        traits=frozenset({"mla", "moe"}),
    )


def _final_norm(hidden: int, builder: Builder) -> Layer:
    pieces = builder.single()
    pieces.norm(hidden)
    return pieces.layer()


def read_kimi_linear(fields: Fields, builder: Builder) -> Body:
    """Kimi Linear and Kimi K3: three layers of delta attention to one latent one, a MoE in a smaller space."""
    sizes, count = LatentSizes(fields), read_layers(fields)
    config = fields.child("linear_attn_config")
    delta = {index - 1 for index in config.integers("kda_layers")}
    intermediate = fields.integer("intermediate_size")
    dense = [first_dense(fields, index) for index in range(count)]
    residual = fields.has("attn_res_block_size")

    def make(index: int, pieces: LayerBuilder) -> None:
        if index in delta:
            kimi_delta(fields, pieces, sizes.hidden)
        else:
            latent_attention(sizes, pieces)
            if fields.flag("mla_use_output_gate"):
                pieces.linear("self_attn.g_proj", sizes.hidden, (Part(sizes.heads, sizes.value),))
        if dense[index]:
            pieces.mlp(sizes.hidden, intermediate)
        else:
            _kimi_mixture(fields, sizes.hidden, pieces)
        pieces.norm(sizes.hidden, 4 if residual else 2)
        if residual:
            pieces.norm(sizes.hidden, 2)

    return Body(
        builder.layers(count, lambda index: (index in delta, dense[index]), make),
        sizes.hidden,
        intermediate,
        fields.integer("vocab_size"),
        sizes.heads,
        1,
        sizes.width,
        extra=(_final_norm(sizes.hidden, builder),),
        tied=fields.flag("tie_word_embeddings"),
        rotary=(),
        traits=frozenset({"mla", "moe", "hybrid"}),
    )


def _kimi_mixture(fields: Fields, hidden: int, pieces: LayerBuilder) -> None:
    latent = fields.integer("routed_expert_hidden_size", default=hidden)
    width = fields.integer("moe_intermediate_size")
    experts = fields.integer("num_experts", high=MOST_EXPERTS)
    pieces.linear("mlp.gate", hidden, experts, "none", quantizable=False)
    top_k = fields.integer(*TOP_K, high=MOST_EXPERTS)
    pieces.experts(latent, width, experts, top_k, router="", correction=True)
    if latent != hidden:
        pieces.linear("mlp.routed_expert_down_proj", hidden, latent, "none", quantizable=False)
        pieces.linear("mlp.routed_expert_up_proj", latent, hidden, "none", quantizable=False)
        pieces.norm(latent)
    shared = fields.integer("num_shared_experts", default=0, low=0, high=MOST_EXPERTS)
    if shared:
        pieces.mlp(hidden, width * shared, prefix="mlp.shared_experts.")
