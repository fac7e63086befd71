"""Multi-head latent attention: DeepSeek V2 to V3.2, Kimi K2, GLM-5, MiniCPM 3, Sarvam.

Layouts from vLLM's deepseek_v2.py, models/deepseek_v32, minicpm3.py and sarvam.py (0.19, 0.29).
"""

from __future__ import annotations

from typing import NamedTuple

from rayllm_ctl.catalog.modelconfig.body import HEADS, HIDDEN, MOST_HEADS, Body, Sizes, read_layers
from rayllm_ctl.catalog.modelconfig.builder import Builder, LayerBuilder
from rayllm_ctl.catalog.modelconfig.decoders.moe import ROWS as MOE_ROWS
from rayllm_ctl.catalog.modelconfig.decoders.patterns import first_dense
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext, MoESpec
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.rope import rotary_caches
from rayllm_ctl.model.plan.facts import AttentionCache, LatentCache, Part, RotaryCache, Vector


class LatentSizes(NamedTuple):
    """The sizes of one latent attention. q_lora 0: queries are projected in one step."""

    hidden: int
    heads: int
    q_lora: int
    kv_lora: int
    nope: int
    rope: int
    value: int

    @property
    def width(self) -> int:
        """Elements per token in the cache."""
        return self.kv_lora + self.rope

    @property
    def key(self) -> int:
        """Features of a head's query and key."""
        return self.nope + self.rope


def latent_sizes(fields: Fields) -> LatentSizes:
    nope = fields.integer("qk_nope_head_dim", "attention_qk_dim")
    return LatentSizes(
        fields.integer(*HIDDEN),
        fields.integer(*HEADS, high=MOST_HEADS),
        fields.integer("q_lora_rank", "attention_q_lora_dim", default=0, low=0),
        fields.integer("kv_lora_rank", "attention_kv_lora_dim"),
        nope,
        fields.integer("qk_rope_head_dim", "attention_qk_rope_dim", low=0),
        fields.integer("v_head_dim", "attention_v_dim", default=nope),
    )


def body_sizes(fields: Fields) -> Sizes:
    """Sizes of a decoder with latent attention: one cached vector for all heads."""
    latent = latent_sizes(fields)
    return Sizes(latent.hidden, read_layers(fields), latent.heads, 1, latent.width, fields.integer("vocab_size"))


def latent_rotary(fields: Fields, _sizes: Sizes) -> tuple[RotaryCache, ...]:
    rope = latent_sizes(fields).rope
    return rotary_caches(fields, rope, width=rope)


def latent_attention(context: LayerContext) -> None:
    """Latent attention with the latent cache, one for all heads."""
    spec, sizes, layer = context.spec, latent_sizes(context.fields), context.layer
    add_latent_projections(sizes, layer, prefix=spec.attention, out=spec.projections[1])
    layer.caches.append(LatentCache(sizes.width, rope_width=sizes.rope))
    gate = spec.head_gate(context.fields, context.sizes) if spec.head_gate else 0
    if gate:
        layer.linear(spec.attention + "g_proj", sizes.hidden, (Part(sizes.heads, gate),))


def add_latent_projections(
    sizes: LatentSizes, layer: LayerBuilder, *, prefix: str = "self_attn.", out: str = "o_proj"
) -> None:
    """The projections down to the latent and up again."""
    if sizes.q_lora:
        parts = (Part(sizes.q_lora), Part(sizes.width))
        shards = ("q_a_proj", "kv_a_proj_with_mqa")
        layer.linear(prefix + "fused_qkv_a_proj", sizes.hidden, parts, "none", shards=shards)
        layer.norm(sizes.q_lora)
        layer.linear(prefix + "q_b_proj", sizes.q_lora, (Part(sizes.heads, sizes.key),))
    else:
        layer.linear(prefix + "q_proj", sizes.hidden, (Part(sizes.heads, sizes.key),))
        layer.linear(prefix + "kv_a_proj_with_mqa", sizes.hidden, sizes.width, "none")
    layer.norm(sizes.kv_lora)
    layer.linear(prefix + "kv_b_proj", sizes.kv_lora, (Part(sizes.heads, sizes.nope + sizes.value),))
    layer.linear(prefix + out, sizes.heads * sizes.value, sizes.hidden, "row", input_units=sizes.heads)


def sparse_latent_attention(context: LayerContext) -> None:
    """Latent attention to the tokens that a small scorer chooses (DeepSeek sparse attention)."""
    latent_attention(context)
    indexer(context)


def indexer(context: LayerContext) -> None:
    """The scorer of DeepSeek sparse attention, with its own fp8 cache (a scale per 128 values)."""
    fields, layer, sizes, prefix = context.fields, context.layer, latent_sizes(context.fields), "self_attn.indexer."
    heads, dim = fields.integer("index_n_heads", high=MOST_HEADS), fields.integer("index_head_dim")
    layer.linear(prefix + "wq_b", sizes.q_lora or sizes.hidden, heads * dim, "none")
    parts = (Part(dim), Part(heads))
    shards = ("wk", "weights_proj")
    layer.linear(prefix + "wk_weights_proj", sizes.hidden, parts, "none", shards=shards, quantizable=False)
    layer.vectors += [Vector(dim, float32=True)] * 2
    layer.caches.append(LatentCache(dim, kind="indexer", fixed_bytes=dim + -(-dim // 128) * 4))


def _attention_per_head(context: LayerContext) -> None:
    """MiniCPM 3: latent projections, but keys and values are cached per head."""
    sizes = latent_sizes(context.fields)
    add_latent_projections(sizes, context.layer)
    context.layer.caches.append(AttentionCache(sizes.heads, sizes.key, sizes.key))


def _per_head_sizes(fields: Fields) -> Sizes:
    sizes, key = body_sizes(fields), latent_sizes(fields).key
    return sizes._replace(kv_heads=sizes.heads, head_dim=key)


def _scoring_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    """Which layers score for themselves: GLM-5.2 lets several layers share one choice of tokens."""
    count = sizes.layers
    if not fields.has("index_topk"):
        return [False] * count
    kinds = fields.texts("indexer_types")
    if kinds:
        return [kinds[min(i, len(kinds) - 1)] != "shared" for i in range(count)]
    pattern = fields.raw("index_topk_pattern")
    if isinstance(pattern, str) and pattern:
        return [pattern[i] != "S" if i < len(pattern) else True for i in range(count)]
    every = fields.integer("index_topk_freq", default=1)
    offset = fields.integer("index_skip_topk_offset", default=2, low=-count, high=4096)
    return [every == 1 or max(i - offset + 1, 0) % every == 0 for i in range(count)]


def shared_choices(body: Body, fields: Fields, _builder: Builder) -> Body:
    """The indices of the chosen tokens, which the layers share."""
    return body._replace(token_buffers=4 * fields.integer("index_topk") if fields.has("index_topk") else 0)


def corrected(fields: Fields) -> bool:
    return fields.text("topk_method") == "noaux_tc" or fields.flag("moe_router_enable_expert_bias")


def _sarvam_dense(fields: Fields, index: int) -> bool:
    first = fields.integer("first_k_dense_replace", default=1, low=0)
    return index < first or (index - first) % fields.integer("moe_layer_freq", default=1) != 0


DEEPSEEK_MOE = MoESpec(
    intermediate=("moe_intermediate_size", "expert_ffn_hidden_size"),
    shared_count=("n_shared_experts", "num_shared_experts"), optional=True, dense=first_dense, correction=corrected,
)  # fmt: skip
LATENT = DecoderSpec(
    mixer=latent_attention, windowed=False, sizes=body_sizes, tables=latent_rotary, intermediate=("intermediate_size",)
)
_DEEPSEEK = LATENT._replace(
    mixers={False: latent_attention, True: sparse_latent_attention}, kinds=_scoring_layers,
    intermediate=("intermediate_size", "ffn_hidden_size"), moe=DEEPSEEK_MOE, finish=shared_choices,
)  # fmt: skip


def _deepseek(fields: Fields) -> DecoderSpec:
    """DeepSeek-VL2 tiny states with qk_nope_head_dim 0 that its attention is grouped-query attention."""
    if fields.integer("qk_nope_head_dim", default=1, low=0):
        return _DEEPSEEK
    return MOE_ROWS["DeepseekForCausalLM"]


ROWS = {
    **dict.fromkeys(
        (
            "AXK1ForCausalLM", "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM",
            "Glm4MoeLiteForCausalLM", "GlmMoeDsaForCausalLM", "MistralLarge3ForCausalLM", "PanguUltraMoEForCausalLM",
        ),
        _deepseek,
    ),
    "MiniCPM3ForCausalLM": LATENT._replace(mixer=_attention_per_head, sizes=_per_head_sizes, tied=True),
    "SarvamMLAForCausalLM": LATENT._replace(
        mlp_bias=("use_bias",),
        moe=MoESpec(
            intermediate=("moe_intermediate_size",), top_k_default=None, dense=_sarvam_dense,
            router_float32=lambda fields: fields.text("router_dtype", default="fp32") == "fp32",
            correction=lambda fields: fields.flag("moe_router_enable_expert_bias", default=True),
            shared_count=("num_shared_experts",), shared_width=("moe_shared_expert_intermediate_size",),
            shared_bias=("use_bias",),
        ),
    ),
}  # fmt: skip
