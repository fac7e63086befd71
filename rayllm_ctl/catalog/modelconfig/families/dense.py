"""DecoderSpec of the dense decoders, by architecture."""

from __future__ import annotations

from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS, Sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.families.decoder import DecoderSpec
from rayllm_ctl.catalog.modelconfig.fields import Fields


def _falcon_sizes(fields: Fields) -> Sizes:
    """Falcon: one KV head unless the newer architecture says how many."""
    newer = fields.flag("new_decoder_architecture")
    sizes = read_sizes(fields, kv_default=None if newer else 1 if fields.flag("multi_query", default=True) else None)
    if not newer and fields.flag("multi_query", default=True):
        return replace(sizes, kv_heads=1)
    return sizes


def _bigcode_sizes(fields: Fields) -> Sizes:
    sizes = read_sizes(fields)
    return replace(sizes, kv_heads=1) if fields.flag("multi_query", default=True) else sizes


def _chatglm_sizes(fields: Fields) -> Sizes:
    sizes = read_sizes(fields)
    return sizes if fields.flag("multi_query_attention") else replace(sizes, kv_heads=sizes.heads)


def _step1_sizes(fields: Fields) -> Sizes:
    """Step 1: one KV head unless the config says how many, in Step's own words first."""
    groups = fields.integer("num_attention_groups", "num_key_value_heads", default=1, high=MOST_HEADS)
    sizes = read_sizes(fields)
    return replace(sizes, kv_heads=groups, head_dim=max(1, sizes.hidden // sizes.heads))


LLAMA = DecoderSpec(
    qkv_bias=("attention_bias", "bias", "qkv_bias"), out_bias=("attention_bias", "bias"), mlp_bias=("mlp_bias",)
)
MISTRAL = replace(LLAMA, window_uniform=True)
QWEN2 = DecoderSpec(qkv_bias=True, qk_norm="head", qk_norm_if=("qk_norm",))
QWEN3 = DecoderSpec(qkv_bias=("attention_bias",), qk_norm="head")
GEMMA = DecoderSpec(tied=True)
GEMMA2 = DecoderSpec(qkv_bias=("attention_bias",), out_bias=("attention_bias",), norms=4, tied=True, window_pattern=2)
COHERE = DecoderSpec(norms=1, tied=True, qk_norm="full", qk_norm_if=("use_qk_norm",), window_pattern=4)
GLM = DecoderSpec(qkv_bias=("attention_bias",))
OLMO2 = DecoderSpec(qk_norm="full-replicated", window_pattern=4)
INTERNLM2 = DecoderSpec(
    qkv_bias=("bias",),
    out_bias=("bias",),
    attention="attention.",
    projections=("wqkv", "wo"),
    qkv_shards=("wqkv",),
    mlp="feed_forward.",
    mlp_names=("gate_up_proj", "w2"),
    mlp_shards=("w1", "w3"),
)
TELECHAT2 = DecoderSpec(attention="self_attention.", out_bias=True, mlp_out_bias=True)
_GPT = DecoderSpec(
    qkv_bias=True,
    out_bias=True,
    mlp_bias=True,
    gated=False,
    norm_bias=True,
    rotary=False,
    tied=True,
    intermediate_times=4,
    attention="attn.",
    projections=("c_attn", "c_proj"),
    qkv_shards=("c_attn",),
    mlp_names=("c_fc", "c_proj"),
)

DENSE: dict[str, DecoderSpec] = {
    "LlamaForCausalLM": LLAMA,
    "LLaMAForCausalLM": LLAMA,
    "AquilaModel": LLAMA,
    "AquilaForCausalLM": LLAMA,
    "CwmForCausalLM": LLAMA,
    "InternLMForCausalLM": LLAMA,
    "InternLM3ForCausalLM": LLAMA,
    "IQuestCoderForCausalLM": LLAMA,
    "SolarForCausalLM": LLAMA,
    "XverseForCausalLM": LLAMA,
    "YiForCausalLM": LLAMA,
    "Fairseq2LlamaForCausalLM": LLAMA,
    "Jais2ForCausalLM": replace(LLAMA, gated=False, norm_bias=True, mlp_names=("up_proj", "down_proj")),
    "Step1ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",),
        out_bias=("attention_bias",),
        mlp_bias=("mlp_bias",),
        rotary=False,
        sizes=_step1_sizes,
    ),
    "Plamo3ForCausalLM": DecoderSpec(
        qk_norm="head",
        norms=4,
        tied=True,
        window_names=("window_size", "sliding_window"),
        window_pattern=8,
        attention="mixer.",
    ),
    "PersimmonForCausalLM": DecoderSpec(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        gated=False,
        norm_bias=True,
        qk_norm="head-bias",
        qk_norm_if=("qk_layernorm",),
        projections=("query_key_value", "dense"),
        qkv_shards=("query_key_value",),
        mlp_names=("dense_h_to_4h", "dense_4h_to_h"),
    ),
    "MuseGlimmerForCausalLM": DecoderSpec(gate=("use_attn_output_gate",), norms=4, window_pattern=4),
    "VaultGemmaForCausalLM": replace(GEMMA2, norms=2, rotary=False),
    "SmolLM3ForCausalLM": replace(LLAMA, tied=True),
    "TeleChat3ForCausalLM": LLAMA,
    "TeleFLMForCausalLM": LLAMA,
    "MistralForCausalLM": MISTRAL,
    "MinistralForCausalLM": MISTRAL,
    "Ministral3ForCausalLM": MISTRAL,
    "Qwen2ForCausalLM": QWEN2,
    "Qwen3ForCausalLM": QWEN3,
    "MiMoForCausalLM": QWEN2,
    "Phi3ForCausalLM": DecoderSpec(qkv_shards=("qkv_proj",), mlp_shards=("gate_up_proj",), window_uniform=True),
    "PhiForCausalLM": DecoderSpec(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        head_bias=True,
        gated=False,
        norms=1,
        norm_bias=True,
        projections=("qkv_proj", "dense"),
        mlp_names=("fc1", "fc2"),
        intermediate_times=4,
    ),
    "Phi3SmallForCausalLM": DecoderSpec(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        norm_bias=True,
        projections=("query_key_value", "dense"),
        qkv_shards=("query_key_value",),
        mlp_names=("up_proj", "down_proj"),
        mlp_shards=("up_proj",),
    ),
    "GemmaForCausalLM": GEMMA,
    "Gemma2ForCausalLM": GEMMA2,
    "Gemma3ForCausalLM": replace(GEMMA2, qk_norm="head", window_pattern=6),
    "Gemma3TextModel": replace(GEMMA2, qk_norm="head", window_pattern=6),
    "Rnj1ForCausalLM": replace(GEMMA2, qk_norm="head", window_pattern=0),
    "GraniteForCausalLM": replace(LLAMA, sinks=("use_sinks",)),
    "GraniteSWAForCausalLM": replace(LLAMA, sinks=True),
    "CohereForCausalLM": COHERE,
    "Cohere2ForCausalLM": COHERE,
    "GlmForCausalLM": GLM,
    "Glm4ForCausalLM": replace(GLM, norms=4),
    "ChatGLMModel": DecoderSpec(
        qkv_bias=("add_qkv_bias", "add_bias_linear"),
        out_bias=("add_bias_linear",),
        mlp_bias=("add_bias_linear",),
        attention="self_attention.",
        projections=("query_key_value", "dense"),
        qkv_shards=("query_key_value",),
        mlp_names=("dense_h_to_4h", "dense_4h_to_h"),
        mlp_shards=("dense_h_to_4h",),
        rotary_share=0.5,
        sizes=_chatglm_sizes,
    ),
    "SeedOssForCausalLM": DecoderSpec(qkv_bias=("attention_bias",), out_bias=("attention_out_bias",)),
    "BaichuanForCausalLM": DecoderSpec(projections=("W_pack", "o_proj"), qkv_shards=("W_pack",)),
    "BaiChuanForCausalLM": DecoderSpec(projections=("W_pack", "o_proj"), qkv_shards=("W_pack",)),
    "InternLM2ForCausalLM": INTERNLM2,
    "InternLM2VEForCausalLM": replace(INTERNLM2, mlp_twin="feed_forward_ve."),
    "ExaoneForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias", "bias"),
        out_bias=("attention_bias", "bias"),
        mlp_bias=("mlp_bias",),
        attention="attn.attention.",
        projections=("qkv_proj", "out_proj"),
        mlp_names=("gate_up_proj", "c_proj"),
        mlp_shards=("c_fc_0", "c_fc_1"),
    ),
    "Exaone4ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias", "bias"),
        out_bias=("attention_bias", "bias"),
        mlp_bias=("mlp_bias",),
        qk_norm="head",
        window_pattern=4,
    ),
    "StableLmForCausalLM": DecoderSpec(qkv_bias=("use_qkv_bias",), norm_bias=True),
    "StableLMEpochForCausalLM": DecoderSpec(qkv_bias=("use_qkv_bias",), norm_bias=True),
    "Starcoder2ForCausalLM": DecoderSpec(
        qkv_bias=("use_bias",),
        out_bias=("use_bias",),
        mlp_bias=("use_bias",),
        gated=False,
        norm_bias=True,
        tied=True,
        mlp_names=("c_fc", "c_proj"),
        window_uniform=True,
        intermediate_times=4,
    ),
    "NemotronForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias", "bias"),
        out_bias=("attention_bias", "bias"),
        mlp_bias=("mlp_bias",),
        gated=False,
        norm_bias=True,
        mlp_names=("up_proj", "down_proj"),
    ),
    "ArceeForCausalLM": replace(LLAMA, gated=False, mlp_names=("up_proj", "down_proj")),
    "ApertusForCausalLM": replace(LLAMA, gated=False, qk_norm="head", mlp_names=("up_proj", "down_proj")),
    "OlmoForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",), out_bias=("attention_bias",), norms=0, final_norm=False
    ),
    "Olmo2ForCausalLM": replace(OLMO2, window_pattern=0),
    "Olmo3ForCausalLM": OLMO2,
    "OrionForCausalLM": DecoderSpec(norm_bias=True),
    "MiniCPMForCausalLM": DecoderSpec(tied=True),
    "HunYuanDenseV1ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias", "bias"),
        out_bias=("attention_bias", "bias"),
        mlp_bias=("mlp_bias",),
        qk_norm="head",
        qk_norm_if=("use_qk_norm",),
    ),
    "Ernie4_5ForCausalLM": DecoderSpec(
        qkv_bias=("use_bias",), out_bias=("use_bias",), mlp_bias=("use_bias",), tied=True
    ),
    "Ernie4_5_ForCausalLM": DecoderSpec(
        qkv_bias=("use_bias",), out_bias=("use_bias",), mlp_bias=("use_bias",), tied=True
    ),
    "HyperCLOVAXForCausalLM": replace(LLAMA, norms=2),
    "TeleChat2ForCausalLM": TELECHAT2,
    "TeleChatForCausalLM": TELECHAT2,
    "QWenLMHeadModel": DecoderSpec(
        qkv_bias=True,
        attention="attn.",
        projections=("c_attn", "c_proj"),
        qkv_shards=("c_attn",),
        mlp_names=("gate_up_proj", "c_proj"),
    ),
    "GPT2LMHeadModel": replace(_GPT, positions=0),
    "JAISLMHeadModel": replace(
        _GPT, gated=True, positions=0, mlp_names=("c_fc", "c_proj"), mlp_shards=("c_fc", "c_fc2")
    ),
    "GPTBigCodeForCausalLM": replace(_GPT, positions=0, sizes=_bigcode_sizes),
    "GPTJForCausalLM": replace(
        _GPT,
        qkv_bias=False,
        out_bias=False,
        norms=1,
        rotary=True,
        tied=False,
        head_bias=True,
        projections=("qkv_proj", "out_proj"),
        mlp_names=("fc_in", "fc_out"),
    ),
    "GPTNeoXForCausalLM": DecoderSpec(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        gated=False,
        norm_bias=True,
        attention="attention.",
        projections=("query_key_value", "dense"),
        qkv_shards=("query_key_value",),
        mlp_names=("dense_h_to_4h", "dense_4h_to_h"),
    ),
    "BloomForCausalLM": DecoderSpec(
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        gated=False,
        norm_bias=True,
        embedding_norm=True,
        rotary=False,
        tied=True,
        intermediate_times=4,
        attention="self_attention.",
        projections=("query_key_value", "dense"),
        qkv_shards=("query_key_value",),
        mlp_names=("dense_h_to_4h", "dense_4h_to_h"),
    ),
    "FalconForCausalLM": DecoderSpec(
        qkv_bias=("bias",),
        out_bias=("bias",),
        mlp_bias=("bias",),
        gated=False,
        norms=2,
        norm_bias=True,
        tied=True,
        intermediate_times=4,
        attention="self_attention.",
        projections=("query_key_value", "dense"),
        qkv_shards=("query_key_value",),
        mlp_names=("dense_h_to_4h", "dense_4h_to_h"),
        sizes=_falcon_sizes,
    ),
    "MPTForCausalLM": DecoderSpec(
        gated=False,
        rotary=False,
        tied=True,
        intermediate_times=4,
        attention="attn.",
        projections=("Wqkv", "out_proj"),
        qkv_shards=("Wqkv",),
        mlp="ffn.",
        mlp_names=("up_proj", "down_proj"),
    ),
    "OPTForCausalLM": DecoderSpec(
        qkv_bias=("enable_bias",),
        out_bias=("enable_bias",),
        mlp_bias=("enable_bias",),
        gated=False,
        norm_bias=True,
        rotary=False,
        tied=True,
        positions=2,
        projections=("qkv_proj", "out_proj"),
        mlp="",
        mlp_names=("fc1", "fc2"),
    ),
}
DENSE["RWForCausalLM"] = DENSE["FalconForCausalLM"]
DENSE["MptForCausalLM"] = DENSE["MPTForCausalLM"]
DENSE["ChatGLMForConditionalGeneration"] = DENSE["ChatGLMModel"]
