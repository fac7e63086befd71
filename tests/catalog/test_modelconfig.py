"""config.json to facts: decoders, quantization formats, context lengths, compact forms, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rayllm_ctl.catalog import models
from rayllm_ctl.catalog.modelconfig import compact, read_config
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.plan.facts import AttentionCache, LatentCache, ModelFacts, StateCache
from rayllm_ctl.planner.memory.shards import ShardSettings, linear_tensors, whole_weights
from tests.planner.known import facts_of
from tests.planner.mutate import refused_of

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
"""TinyLlama 1.1B."""

QWEN3 = {**LLAMA, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
MIXTRAL = {**LLAMA, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 8}
UNHEARD_OF = {"architectures": ["UnheardOfForCausalLM"], "model_type": "unheard-of"}


def read(**changes: Any) -> ModelFacts:
    return read_config({key: value for key, value in {**LLAMA, **changes}.items() if value is not ...})


def test_a_decoder_is_read_layer_by_layer() -> None:
    facts = read()
    assert facts.parameters == 1_100_048_384
    assert (facts.heads, facts.kv_heads, facts.head_dim, facts.layer_count) == (32, 4, 64, 22)
    assert facts.layers[0].caches == (AttentionCache(4, 64, 64),)
    assert facts.dtype == "bfloat16"
    assert not facts.moe


def test_equal_layers_are_one_object() -> None:
    assert len({id(layer) for layer in read().layers}) == 1


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("Qwen/Qwen3-30B-A3B", 30.5e9, 3.3e9),
        ("mistralai/Mixtral-8x7B-v0.1", 46.7e9, 12.9e9),
        ("deepseek-ai/DeepSeek-V3", 671e9, 37.6e9),
        ("openai/gpt-oss-120b", 116.8e9, 5.1e9),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 79.7e9, 3.9e9),
    ],
)
def test_the_sizes_that_model_cards_state(name: str, total: float, active: float) -> None:
    facts = facts_of(name)
    assert facts.parameters == pytest.approx(total, rel=0.01)
    assert facts.active_parameters == pytest.approx(active, rel=0.12)


def kinds(facts: ModelFacts) -> dict[str, int]:
    found: dict[str, int] = {}
    for layer in facts.layers:
        for cache in layer.caches:
            match cache:
                case AttentionCache():
                    kind = "window" if cache.window else "chunk" if cache.chunk else "full"
                case LatentCache() | StateCache():
                    kind = cache.kind
            found[kind] = found.get(kind, 0) + 1
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("google/gemma-2-9b-it", {"window": 21, "full": 21}),
        ("google/gemma-3-12b-it", {"window": 40, "full": 8}),
        ("openai/gpt-oss-20b", {"window": 12, "full": 12}),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", {"chunk": 36, "full": 12}),
        ("deepseek-ai/DeepSeek-V3", {"mla": 61}),
        ("deepseek-ai/DeepSeek-V3.2", {"mla": 61, "indexer": 61}),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", {"gdn": 36, "full": 12}),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {"mamba2": 23, "full": 6}),
        ("ai21labs/AI21-Jamba-Mini-1.5", {"mamba1": 28, "full": 4}),
        ("deepseek-ai/DeepSeek-V4-Flash", {"window": 43, "compressed": 41, "indexer": 21, "state": 62}),
    ],
)
def test_what_each_layer_caches(name: str, expected: dict[str, int]) -> None:
    assert kinds(facts_of(name)) == expected


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        ({}, 2048),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, 8192),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 2048),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}}, 4096),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, 4096),
        ({"max_position_embeddings": ..., "n_positions": 1024, "seq_length": 512}, 512),
        ({"max_position_embeddings": ...}, 2048),
        ({"model_max_length": 4096}, 4096),
    ],
)
def test_the_longest_context_is_what_vllm_derives(changes: dict[str, Any], length: int) -> None:
    assert read(**changes).max_model_len == length


@pytest.mark.parametrize(
    ("quantization", "method", "bits", "per_weight"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 8, 1 + 4 / 128**2),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, "awq", 4, 0.5 + 2.5 / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}, "gptq", 4, 0.5 + 2.5 / 128),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt", 4, 0.5 + 1 / 16),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes", 4, 0.5 + 4 / 64),
    ],
)
def test_quantization_formats(quantization: dict[str, Any], method: str, bits: int, per_weight: float) -> None:
    facts = read(quantization_config=quantization)
    assert facts.quantization is not None
    assert facts.quantization.method.startswith(method)
    assert facts.quantization.weight_bits == bits
    down = next(linear for linear in facts.layers[0].linears if linear.name.endswith("down_proj"))
    assert sum(linear_tensors(down, ShardSettings(1))) / down.parameters == pytest.approx(per_weight, rel=0.01)


def test_what_a_checkpoint_leaves_alone_stays_plain() -> None:
    config = {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}}},
        "ignore": ["lm_head", "re:.*layers\\.0\\.mlp.*", "model.layers.1.self_attn.o_proj"],
    }
    facts = read(quantization_config=config)
    plain = [[linear.name for linear in layer.linears if linear.scheme is None] for layer in facts.layers[:3]]
    assert plain == [["mlp.gate_up_proj", "mlp.down_proj"], ["self_attn.o_proj"], []]
    assert facts.head_scheme is None


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}


def bits_of(**quantization: Any) -> list[dict[str, int]]:
    """Bits of the projections of each layer."""
    facts = read(quantization_config=quantization)
    return [
        {linear.name.rpartition(".")[2]: linear.scheme.bits if linear.scheme else 16 for linear in layer.linears}
        for layer in facts.layers
    ]


def test_modules_that_gptq_leaves_alone_or_stores_otherwise_are_read() -> None:
    """GPTQModel's rules by module: the first that matches counts, whether it names vLLM's projection or its parts."""
    dynamic = {
        "-:.*attn.*": {},
        "+:.*layers\\.1\\..*down_proj": {"bits": 8},
        ".*gate_up_proj": {"bits": 2},
        "lm_head": {},
    }
    first, second = bits_of(**GPTQ, dynamic=dynamic)[:2]
    assert first == {"qkv_proj": 16, "o_proj": 16, "gate_up_proj": 2, "down_proj": 4}
    assert second == {"qkv_proj": 16, "o_proj": 16, "gate_up_proj": 2, "down_proj": 8}
    parts = bits_of(**GPTQ, dynamic={"-:.*gate_proj": {}, "-:.*up_proj": {}})[0]
    assert parts == {"qkv_proj": 4, "o_proj": 4, "gate_up_proj": 16, "down_proj": 4}


@pytest.mark.parametrize("nested", [True, False])
def test_modules_that_gptq_lists_as_quantized_are_the_only_ones(nested: bool) -> None:
    names = ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
    found = bits_of(**GPTQ, modules_in_block_to_quantize=[names] if nested else names)[0]
    assert found == {"qkv_proj": 16, "o_proj": 16, "gate_up_proj": 4, "down_proj": 4}


def test_what_autoround_says_of_single_modules_is_read() -> None:
    config = {
        "quant_method": "auto-round",
        "bits": 4,
        "block_name_to_quantize": "model.layers",
        "extra_config": {
            "model.layers.0.mlp.down_proj": {"bits": 16},
            ".*layers\\.1\\.mlp.*": {"bits": 8, "group_size": 64},
        },
    }
    first, second, third = bits_of(**config)[:3]
    assert first == {"qkv_proj": 4, "o_proj": 4, "gate_up_proj": 4, "down_proj": 16}
    assert second == {"qkv_proj": 4, "o_proj": 4, "gate_up_proj": 8, "down_proj": 8}
    assert third == {"qkv_proj": 4, "o_proj": 4, "gate_up_proj": 4, "down_proj": 4}


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_a_data_type_that_the_config_does_not_state_is_not_made_up(dtype: str | None) -> None:
    assert read(torch_dtype=dtype or ...).dtype == (dtype or "")


@pytest.mark.parametrize(("targets", "quantized"), [(["Linear"], False), (["Linear", "re:.*lm_head"], True)])
def test_the_output_head_is_quantized_only_where_it_is_named(targets: list[str], quantized: bool) -> None:
    group = {"targets": targets, "weights": {"num_bits": 8, "type": "float"}}
    config = {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": group}}
    assert (read(quantization_config=config).head_scheme is not None) is quantized


def test_buffers_that_a_model_holds_for_every_token_of_a_batch() -> None:
    assert facts_of("deepseek-ai/DeepSeek-V3.2").token_buffers == 2048 * 4
    assert facts_of("deepseek-ai/DeepSeek-V3").token_buffers == 0


def test_wide_heads_of_gemma_4_have_512_features_where_the_config_is_silent() -> None:
    config = {
        **LLAMA,
        "architectures": ["Gemma4ForCausalLM"],
        "model_type": "gemma4_text",
        "head_dim": 256,
        "sliding_window": 512,
        "num_hidden_layers": 6,
    }
    caches = [layer.caches[0] for layer in read_config(config).layers]
    assert [cache.key_dim for cache in caches if isinstance(cache, AttentionCache)] == [256] * 5 + [512]


def test_the_side_file_of_modelopt_is_read() -> None:
    side = {
        "producer": {"name": "modelopt"},
        "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]},
    }
    facts = read_config(LLAMA, hf_quant_config=side)
    assert facts.quantization is not None
    assert facts.quantization.kv_cache_dtype == "fp8"
    assert read_config(compact(LLAMA, hf_quant_config=side)) == facts


def test_a_nested_text_model_is_found() -> None:
    facts = facts_of("google/gemma-3-12b-it")
    assert facts.multimodal
    (encoder,) = facts.encoders
    assert (encoder.tokens, encoder.patches) == (256, 4096)
    assert encoder.parameters == pytest.approx(0.42e9, rel=0.02)


def test_transformers_defaults_fill_what_a_nested_config_leaves_out() -> None:
    nested = {"model_type": "llama", "num_key_value_heads": 8, "rope_theta": 500000.0, "vocab_size": 128256}
    config = {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "text_config": nested,
        "vision_config": {"model_type": "clip_vision_model"},
    }
    facts = read_config(config)
    assert (facts.hidden_size, facts.layer_count, facts.heads, facts.kv_heads) == (4096, 32, 32, 8)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "config.json has no field architectures"),
        ({**QWEN3, "hidden_size": None}, "config.json has no field hidden_size"),
        ({**LLAMA, "num_hidden_layers": "many"}, "num_hidden_layers is 'many'"),
        ({**LLAMA, "num_hidden_layers": -3}, "num_hidden_layers is -3"),
        ({**LLAMA, "vocab_size": 10**30}, "vocab_size"),
        ({**LLAMA, "quantization_config": {"quant_method": "magic"}}, "unsupported quantization"),
        ({**LLAMA, "rope_scaling": "yarn"}, "rope_scaling is 'yarn'"),
        ({**MIXTRAL, "num_experts_per_tok": 9}, "9 experts per token are more than the 8 experts of a layer"),
        ({**LLAMA, **UNHEARD_OF, "num_attention_heads": None}, "config.json has no field num_attention_heads"),
        (
            {**LLAMA, **UNHEARD_OF, "num_attention_heads": None, "state_size": 16},
            "config.json has no field num_attention_heads",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_config(config)
    assert message in str(caught.value)
    assert caught.value.hints


def test_an_architecture_that_is_not_known_is_read_by_its_usual_fields_and_says_so() -> None:
    known, unknown = read(), read(architectures=["NoSuchModelForCausalLM"], model_type="nothing", loop_size=7)
    assert unknown.layers == known.layers
    assert "generic" in unknown.traits
    assert unknown.assumed[0].startswith('the layers of "NoSuchModelForCausalLM" are not known here:')
    assert unknown.assumed[1:] == ("not read: loop_size",)
    assert not known.assumed


def test_an_unknown_architecture_with_a_state_and_no_attention_heads_is_read_as_mamba() -> None:
    sizes = {"hidden_size": 768, "num_hidden_layers": 24, "vocab_size": 50280, "state_size": 16}
    facts = read_config({**UNHEARD_OF, **sizes, "intermediate_size": 1536})
    assert {"generic", "attention-free"} <= facts.traits


def test_a_nearly_right_name_is_told_the_right_one() -> None:
    assert (
        "(the nearest known is LlamaForCausalLM)" in read(architectures=["LlamaForCausalML"], model_type="").assumed[0]
    )


def test_a_model_type_that_is_known_lends_its_layers() -> None:
    facts = read(architectures=["OwnForCausalLM"], model_type="qwen3")
    assert facts.layers == read_config({**QWEN3}).layers
    assert "taken as those of Qwen3ForCausalLM" in facts.assumed[0]


NAMELESS = {"architectures", "model_type"}


def nameless(config: Mapping[str, Any]) -> dict[str, Any]:
    """`config` without what names its kind."""
    return {
        key: nameless(value) if isinstance(value, Mapping) else value
        for key, value in config.items()
        if key not in NAMELESS
    }


def test_the_usual_fields_alone_describe_most_of_the_catalog() -> None:
    """Weights, against those by the rows of the architectures."""
    errors, silent = [], []
    for model in WHOLE:
        facts = facts_of(model.id)
        try:
            found = read_config({**nameless(model.config), "architectures": ["UnheardOfForCausalLM"]})
        except UserError:
            silent.append(model.id)  # its type says what the file leaves out
            continue
        errors.append(abs(whole_weights(found, found.dtype) / whole_weights(facts, facts.dtype) - 1))
    assert len(silent) <= 5
    assert sum(error > 0.02 for error in errors) <= 76  # of 419
    assert sum(error <= 0.08 for error in errors) >= 0.87 * len(errors)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}, {"mla": 22}),
        ({"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 512}, {"window": 1, "full": 21}),
        (
            {
                "layer_types": ["linear_attention"] * 3 + ["full_attention"], "linear_num_key_heads": 16,
                "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
            },
            {"gdn": 3, "full": 19},
        ),
        ({"layers_block_type": ["mamba", "attention"] * 11, "mamba_n_heads": 64, "mamba_d_state": 128,
          "mamba_d_head": 64}, {"mamba2": 11, "full": 11}),
        ({"layer_types": ["conv", "full_attention"] * 11, "conv_L_cache": 3}, {"short_conv": 11, "full": 11}),
        ({"attn_type_list": [0] * 21 + [1]}, {"linear": 21, "full": 1}),
        ({"mamba_d_state": 16}, {"mamba1": 22, "full": 22}),
        ({"is_encoder_decoder": True}, {"full": 22, "window": 22}),
    ],
)  # fmt: skip
def test_usual_fields_say_what_each_layer_keeps(changes: dict[str, Any], kept: dict[str, int]) -> None:
    facts = read(architectures=["UnheardOfForCausalLM"], model_type="unheard-of", **changes)
    assert kinds(facts) == kept


@pytest.mark.parametrize(
    ("changes", "experts"),
    [
        ({"num_experts": 64}, 22),
        ({"n_routed_experts": 64, "first_k_dense_replace": 2}, 20),
        ({"num_local_experts": 64, "interleave_moe_layer_step": 2}, 11),
        ({"num_experts": 64, "decoder_sparse_step": 1, "mlp_only_layers": [0, 1, 2]}, 19),
        ({"num_experts": 64, "mlp_layer_types": ["dense"] + ["sparse"] * 21}, 21),
        ({"num_experts": 1}, 22),
        ({}, 0),
    ],
)
def test_usual_fields_say_which_layers_have_experts(changes: dict[str, Any], experts: int) -> None:
    mixture = {"moe_intermediate_size": 1024, "num_experts_per_tok": 1, **changes}
    facts = read(architectures=["UnheardOfForCausalLM"], model_type="unheard-of", **mixture)
    assert sum(bool(layer.experts) for layer in facts.layers) == experts


def test_sizes_that_a_config_lists_layer_by_layer_are_those_of_each_layer() -> None:
    listed = {"num_attention_heads": [16, 32], "num_key_value_heads": [2, 4], "intermediate_size": [4096, 5632]}
    facts = read(architectures=["UnheardOfForCausalLM"], model_type="unheard-of", head_dim=64, **listed)
    first, second = facts.layers[:2]
    assert (first.caches, second.caches) == ((AttentionCache(2, 64, 64),), (AttentionCache(4, 64, 64),))
    assert (facts.heads, facts.kv_heads, facts.intermediate_size) == (32, 4, 5632)
    assert second == read().layers[0]
    assert first.linears[2].outputs == 2 * 4096


def test_encoders_of_an_unknown_architecture_are_plain_or_not_counted() -> None:
    config = {
        "architectures": ["UnheardOf"],
        "text_config": {**nameless(LLAMA), "model_type": "qwen3"},
        "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27, "intermediate_size": 4304, "patch_size": 14},
        "audio_config": {"kind": "of its own"},
        "visual": {"embed_dim": [96, 192], "depth": [2, 2, 18, 2]},
    }
    facts = read_config(config)
    (encoder,) = facts.encoders
    assert encoder.parameters == pytest.approx(0.42e9, rel=0.02)
    assert facts.assumed == (
        'the layers of "UnheardOf" are not known here and are taken as those of Qwen3ForCausalLM',
        "encoders (image) are taken as plain transformers",
        "what visual and audio_config describes is not counted",
    )
    assert read_config(compact(config)) == facts


def test_the_compact_form_says_the_same_in_less() -> None:
    config = {**LLAMA, "initializer_range": 0.02, "use_cache": True, "bos_token_id": 1}
    small = compact(config)
    assert "initializer_range" not in small
    assert read_config(small) == read_config(config)
    assert compact(small) == small


WHOLE = [model for model in models.models() if model.same_as is None]


def test_damaged_configs_are_read_or_refused_and_compact_forms_agree() -> None:
    """400 configs of the catalog with fields dropped, replaced, swapped or added."""
    assert 40 < refused_of([model.config for model in WHOLE], seed=20261121) < 360


def test_a_model_of_images_and_sound_has_two_encoders() -> None:
    """Qwen3-Omni: what vLLM serves is its thinker."""
    text = {
        "model_type": "qwen3_omni_moe_text",
        "hidden_size": 2048,
        "num_hidden_layers": 4,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "intermediate_size": 768,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "vocab_size": 152064,
    }
    thinker = {
        "text_config": text,
        "vision_config": {"depth": 27, "out_hidden_size": 2048, "deepstack_visual_indexes": [8, 16, 24]},
        "audio_config": {"d_model": 1280, "downsample_hidden_size": 480, "output_dim": 2048},
    }
    config = {
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "model_type": "qwen3_omni_moe",
        "thinker_config": thinker,
    }
    facts = read_config(config)
    assert facts.moe
    assert "part" in facts.traits
    assert [encoder.modality for encoder in facts.encoders] == ["image", "audio"]
    assert facts.encoders[1].parameters == pytest.approx(0.65e9, rel=0.02)
    assert read_config(compact(config)) == facts


def test_a_layer_that_predicts_further_tokens_is_kept_apart() -> None:
    facts = facts_of("deepseek-ai/DeepSeek-V3")
    plain = facts.parameters
    config = {**read_back("deepseek-ai/DeepSeek-V3"), "num_nextn_predict_layers": 1}
    drafting = read_config(config)
    assert drafting.parameters == plain
    assert sum(layer.parameters for layer in drafting.draft_layers) == pytest.approx(11.5e9, rel=0.02)


def read_back(name: str) -> dict[str, Any]:
    model = models.find_model(name)
    assert model is not None
    return dict(model.config)


@pytest.mark.parametrize("layer", [25, 2**31, -26, [2**31, -2]])
def test_a_feature_layer_that_the_encoder_lacks_is_refused(layer: Any) -> None:
    """As it says how many layers are built, a damaged number must not make the planner count to it."""
    config = {
        "architectures": ["LlavaForConditionalGeneration"],
        "text_config": {"model_type": "llama", "vocab_size": 32064, "max_position_embeddings": 4096},
        "vision_config": {"model_type": "clip_vision_model", "num_hidden_layers": 24, "hidden_size": 1024},
        "vision_feature_layer": layer,
    }
    with pytest.raises(UserError, match="vision_feature_layer"):
        read_config(config)
    assert read_config({**config, "vision_feature_layer": -2}).encoders


@pytest.mark.parametrize(
    "changes",
    [
        {"architectures": ["x\u001b[31m"]},
        {"architectures": ["UnheardOf", "a b"][1:]},
        {"rope_scaling": {"rope_type": "yarn", "factor": -4}},
        {"rope_scaling": {"rope_type": "linear", "factor": 0}},
        {"num_attention_heads": 32, "num_key_value_heads": 5},
    ],
)
def test_what_no_model_has_is_an_error_in_printable_text(changes: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        read(**changes)
    assert caught.value.message.isprintable()
