"""Dense decoders with grouped-query attention: a row each."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.body import MOST_HEADS, Sizes, read_even_sizes, read_sizes
from rayllm_ctl.catalog.modelconfig.decoders.decoder import attention, borrowing_attention
from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec, LayerContext
from rayllm_ctl.catalog.modelconfig.fields import Fields


def _falcon_sizes(fields: Fields) -> Sizes:
    """Falcon: one KV head unless the newer architecture says how many."""
    return read_sizes(fields) if fields.flag("new_decoder_architecture") else _bigcode_sizes(fields)


def _bigcode_sizes(fields: Fields) -> Sizes:
    sizes = read_sizes(fields)
    return sizes._replace(kv_heads=1) if fields.flag("multi_query", default=True) else sizes


def _chatglm_sizes(fields: Fields) -> Sizes:
    sizes = read_sizes(fields)
    return sizes if fields.flag("multi_query_attention") else sizes._replace(kv_heads=sizes.heads)


def _step1_sizes(fields: Fields) -> Sizes:
    """Step 1: one KV head unless the config says how many, in Step's own words first."""
    groups = fields.integer("num_attention_groups", "num_key_value_heads", default=1, high=MOST_HEADS)
    return read_even_sizes(fields)._replace(kv_heads=groups)


def _pangu_bias(fields: Fields) -> bool:
    return fields.flag("attention_bias") or fields.flag("bias")


def _crossing_layers(fields: Fields, sizes: Sizes) -> list[bool]:
    crossing = fields.integers("cross_attention_layers") or (3, 8, 13, 18, 23, 28, 33, 38)
    return [index in crossing for index in range(sizes.layers)]


def _cross_attention(context: LayerContext) -> None:
    spec = context.spec._replace(qk_norm="head", attention="cross_attn.")
    borrowing_attention(context._replace(spec=spec))


LLAMA = DecoderSpec(
    qkv_bias=("attention_bias", "bias", "qkv_bias"), out_bias=("attention_bias", "bias"), mlp_bias=("mlp_bias",)
)
MISTRAL = LLAMA._replace(window_uniform=True)
QWEN2 = DecoderSpec(qkv_bias=True, qk_norm="head", qk_norm_if=("qk_norm",))
QWEN3 = DecoderSpec(qkv_bias=("attention_bias",), qk_norm="head")
GEMMA = DecoderSpec(tied=True)
GEMMA2 = DecoderSpec(qkv_bias=("attention_bias",), out_bias=("attention_bias",), norms=4, tied=True, window_pattern=2)
COHERE = DecoderSpec(norms=1, tied=True, qk_norm="full", qk_norm_if=("use_qk_norm",), window_pattern=4)
GLM = DecoderSpec(qkv_bias=("attention_bias",))
OLMO2 = DecoderSpec(qk_norm="full-replicated", window_pattern=4)
INTERNLM2 = DecoderSpec(
    qkv_bias=("bias",), out_bias=("bias",), attention="attention.", projections=("wqkv", "wo"), qkv_shards=("wqkv",),
    mlp="feed_forward.", mlp_names=("gate_up_proj", "w2"), mlp_shards=("w1", "w3"),
)  # fmt: skip
TELECHAT2 = DecoderSpec(attention="self_attention.", out_bias=True, mlp_out_bias=True)
_FUSED = DecoderSpec(
    qkv_bias=True, out_bias=True, mlp_bias=True, gated=False, norm_bias=True, projections=("query_key_value", "dense"),
    qkv_shards=("query_key_value",), mlp_names=("dense_h_to_4h", "dense_4h_to_h"),
)  # fmt: skip
_FALCON = _FUSED._replace(
    qkv_bias=("bias",), out_bias=("bias",), mlp_bias=("bias",), tied=True, intermediate_times=4,
    attention="self_attention.", sizes=_falcon_sizes,
)  # fmt: skip
_CHATGLM = _FUSED._replace(
    qkv_bias=("add_qkv_bias", "add_bias_linear"), out_bias=("add_bias_linear",), mlp_bias=("add_bias_linear",),
    gated=True, norm_bias=False, attention="self_attention.", mlp_shards=("dense_h_to_4h",), rotary_share=0.5,
    sizes=_chatglm_sizes,
)  # fmt: skip
_MPT = DecoderSpec(
    gated=False, rotary=False, tied=True, intermediate_times=4, attention="attn.", projections=("Wqkv", "out_proj"),
    qkv_shards=("Wqkv",), mlp="ffn.", mlp_names=("up_proj", "down_proj"),
)  # fmt: skip
_BAICHUAN = DecoderSpec(projections=("W_pack", "o_proj"), qkv_shards=("W_pack",))
_STABLELM = DecoderSpec(qkv_bias=("use_qkv_bias",), norm_bias=True)
_ERNIE = DecoderSpec(qkv_bias=("use_bias",), out_bias=("use_bias",), mlp_bias=("use_bias",), tied=True)
_GEMMA3 = GEMMA2._replace(qk_norm="head", window_pattern=6)
_EITHER = DecoderSpec(qkv_bias=("attention_bias", "bias"), out_bias=("attention_bias", "bias"), mlp_bias=("mlp_bias",))
_GPT = DecoderSpec(
    qkv_bias=True, out_bias=True, mlp_bias=True, gated=False, norm_bias=True, rotary=False, tied=True,
    intermediate_times=4, attention="attn.", projections=("c_attn", "c_proj"), qkv_shards=("c_attn",),
    mlp_names=("c_fc", "c_proj"),
)  # fmt: skip

_LLAMAS = (
    "AquilaForCausalLM", "AquilaModel", "CwmForCausalLM", "Fairseq2LlamaForCausalLM", "IQuestCoderForCausalLM",
    "InternLM3ForCausalLM", "InternLMForCausalLM", "LLaMAForCausalLM", "LlamaForCausalLM", "SolarForCausalLM",
    "TeleChat3ForCausalLM", "TeleFLMForCausalLM", "XverseForCausalLM", "YiForCausalLM",
)  # fmt: skip

ROWS: dict[str, DecoderSpec] = {
    **dict.fromkeys(_LLAMAS, LLAMA),
    "MistralForCausalLM": MISTRAL,
    "MinistralForCausalLM": MISTRAL,
    "Ministral3ForCausalLM": MISTRAL,
    "Qwen2ForCausalLM": QWEN2,
    "MiMoForCausalLM": QWEN2,
    "Qwen3ForCausalLM": QWEN3,
    "GemmaForCausalLM": GEMMA,
    "Gemma2ForCausalLM": GEMMA2,
    "CohereForCausalLM": COHERE,
    "Cohere2ForCausalLM": COHERE,
    "GlmForCausalLM": GLM,
    "InternLM2ForCausalLM": INTERNLM2,
    "Olmo3ForCausalLM": OLMO2,
    "TeleChat2ForCausalLM": TELECHAT2,
    "TeleChatForCausalLM": TELECHAT2,
    "Jais2ForCausalLM": LLAMA._replace(gated=False, norm_bias=True, mlp_names=("up_proj", "down_proj")),
    "Step1ForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",), out_bias=("attention_bias",), mlp_bias=("mlp_bias",), rotary=False,
        sizes=_step1_sizes,
    ),
    "Plamo3ForCausalLM": DecoderSpec(
        qk_norm="head", norms=4, tied=True, window_names=("window_size", "sliding_window"), window_pattern=8,
        attention="mixer.",
    ),
    "PanguEmbeddedForCausalLM": DecoderSpec(
        qkv_bias=lambda fields: fields.flag("qkv_bias", default=_pangu_bias(fields)), out_bias=_pangu_bias,
        mlp_bias=("mlp_bias",), intermediate=("intermediate_size",),
        norms=lambda fields: 4 if fields.flag("sandwich_norm") else 2,
    ),
    "PersimmonForCausalLM": _FUSED._replace(qk_norm="head-bias", qk_norm_if=("qk_layernorm",)),
    "MuseGlimmerForCausalLM": DecoderSpec(gate=("use_attn_output_gate",), norms=4, window_pattern=4),
    "VaultGemmaForCausalLM": GEMMA2._replace(norms=2, rotary=False),
    "SmolLM3ForCausalLM": LLAMA._replace(tied=True),
    "Phi3ForCausalLM": DecoderSpec(qkv_shards=("qkv_proj",), mlp_shards=("gate_up_proj",), window_uniform=True),
    "PhiForCausalLM": DecoderSpec(
        qkv_bias=True, out_bias=True, mlp_bias=True, head_bias=True, gated=False, norms=1, norm_bias=True,
        projections=("qkv_proj", "dense"), mlp_names=("fc1", "fc2"), intermediate_times=4,
    ),
    "Phi3SmallForCausalLM": DecoderSpec(
        qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True, projections=("query_key_value", "dense"),
        qkv_shards=("query_key_value",), mlp_names=("up_proj", "down_proj"), mlp_shards=("up_proj",),
    ),
    "Gemma3ForCausalLM": _GEMMA3,
    "Gemma3TextModel": _GEMMA3,
    "Rnj1ForCausalLM": GEMMA2._replace(qk_norm="head", window_pattern=0),
    "GraniteForCausalLM": LLAMA._replace(sinks=("use_sinks",)),
    "GraniteSWAForCausalLM": LLAMA._replace(sinks=True),
    "Glm4ForCausalLM": GLM._replace(norms=4),
    "ChatGLMModel": _CHATGLM,
    "ChatGLMForConditionalGeneration": _CHATGLM,
    "SeedOssForCausalLM": DecoderSpec(qkv_bias=("attention_bias",), out_bias=("attention_out_bias",)),
    "BaichuanForCausalLM": _BAICHUAN,
    "BaiChuanForCausalLM": _BAICHUAN,
    "InternLM2VEForCausalLM": INTERNLM2._replace(mlp_twin="feed_forward_ve."),
    "ExaoneForCausalLM": _EITHER._replace(
        attention="attn.attention.", projections=("qkv_proj", "out_proj"), mlp_names=("gate_up_proj", "c_proj"),
        mlp_shards=("c_fc_0", "c_fc_1"),
    ),
    "Exaone4ForCausalLM": _EITHER._replace(qk_norm="head", window_pattern=4),
    "StableLmForCausalLM": _STABLELM,
    "StableLMEpochForCausalLM": _STABLELM,
    "Starcoder2ForCausalLM": DecoderSpec(
        qkv_bias=("use_bias",), out_bias=("use_bias",), mlp_bias=("use_bias",), gated=False, norm_bias=True, tied=True,
        mlp_names=("c_fc", "c_proj"), window_uniform=True, intermediate_times=4,
    ),
    "NemotronForCausalLM": _EITHER._replace(gated=False, norm_bias=True, mlp_names=("up_proj", "down_proj")),
    "ArceeForCausalLM": LLAMA._replace(gated=False, mlp_names=("up_proj", "down_proj")),
    "ApertusForCausalLM": LLAMA._replace(gated=False, qk_norm="head", mlp_names=("up_proj", "down_proj")),
    "OlmoForCausalLM": DecoderSpec(
        qkv_bias=("attention_bias",), out_bias=("attention_bias",), norms=0, final_norm=False,
    ),
    "Olmo2ForCausalLM": OLMO2._replace(window_pattern=0),
    "OrionForCausalLM": DecoderSpec(norm_bias=True),
    "MiniCPMForCausalLM": DecoderSpec(tied=True),
    "HunYuanDenseV1ForCausalLM": _EITHER._replace(qk_norm="head", qk_norm_if=("use_qk_norm",)),
    "Ernie4_5ForCausalLM": _ERNIE,
    "Ernie4_5_ForCausalLM": _ERNIE,
    "HyperCLOVAXForCausalLM": LLAMA._replace(norms=2),
    "QWenLMHeadModel": DecoderSpec(
        qkv_bias=True, attention="attn.", projections=("c_attn", "c_proj"), qkv_shards=("c_attn",),
        mlp_names=("gate_up_proj", "c_proj"),
    ),
    "GPT2LMHeadModel": _GPT._replace(positions=0),
    "JAISLMHeadModel": _GPT._replace(
        gated=True, positions=0, mlp_names=("c_fc", "c_proj"), mlp_shards=("c_fc", "c_fc2"),
    ),
    "GPTBigCodeForCausalLM": _GPT._replace(positions=0, sizes=_bigcode_sizes),
    "GPTJForCausalLM": _GPT._replace(
        qkv_bias=False, out_bias=False, norms=1, rotary=True, tied=False, head_bias=True,
        projections=("qkv_proj", "out_proj"), mlp_names=("fc_in", "fc_out"),
    ),
    "GPTNeoXForCausalLM": _FUSED._replace(attention="attention."),
    "BloomForCausalLM": _FUSED._replace(
        embedding_norm=True, rotary=False, tied=True, intermediate_times=4, attention="self_attention.",
    ),
    "FalconForCausalLM": _FALCON,
    "RWForCausalLM": _FALCON,
    "MPTForCausalLM": _MPT,
    "MptForCausalLM": _MPT,
    "OPTForCausalLM": DecoderSpec(
        qkv_bias=("enable_bias",), out_bias=("enable_bias",), mlp_bias=("enable_bias",), gated=False, norm_bias=True,
        rotary=False, tied=True, positions=2, projections=("qkv_proj", "out_proj"), mlp="", mlp_names=("fc1", "fc2"),
    ),
    # Llama 3.2 Vision: layers that attend to the image keep no keys of the text
    "MllamaForCausalLM": DecoderSpec(
        mixers={True: _cross_attention, False: attention}, kinds=_crossing_layers, windowed=False,
        intermediate=("intermediate_size",),
    ),
}  # fmt: skip
