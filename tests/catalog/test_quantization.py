"""quantization_config by format: which modules are stored how, and with how many bytes.

Each case names vLLM's file (model_executor/layers/quantization of 0.33.0 unless another release is given) whose reading
of the field it repeats.
"""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.catalog.modelconfig import compact, read_config
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.planner.memory.shards import ShardSettings, expert_tensors, linear_tensors
from tests.catalog.test_modelconfig import LLAMA

MIXTURE: dict[str, Any] = {
    **LLAMA,
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_hidden_layers": 3,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 768,
}

INT4 = {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 32}}
INT8 = {"_type": "Int8WeightOnlyConfig", "_data": {}}


def read(config: dict[str, Any], **quantization: Any) -> ModelFacts:
    return read_config({**config, "quantization_config": quantization})


def stored(facts: ModelFacts, layer: int = 0) -> dict[str, float]:
    """Bits of every projection of a layer, with all that is stored beside the weights."""
    found = {
        linear.name.rpartition(".")[2]: 8 * sum(linear_tensors(linear, ShardSettings())) / linear.parameters
        for linear in facts.layers[layer].linears
    }
    for experts in facts.layers[layer].experts:
        each = experts.count * experts.per_expert
        found["experts"] = 8 * sum(expert_tensors(experts, ShardSettings())) / each
    return {name: round(bits, 1) for name, bits in found.items()}


PLAIN = {"qkv_proj": 16.0, "o_proj": 16.0, "gate_up_proj": 16.0, "down_proj": 16.0}


def quark(weight: Any, inputs: Any = None, **other: Any) -> dict[str, Any]:
    figures = {"weight": weight, "input_tensors": inputs}
    return {"quant_method": "quark", "global_quant_config": figures, "export": {"kv_cache_group": []}, **other}


FP8 = {"dtype": "fp8_e4m3", "qscheme": "per_channel", "is_dynamic": False}
DYNAMIC = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": True}


@pytest.mark.parametrize(
    ("quantization", "bits"),
    [
        # quark/schemes: quark_ocp_mx.py, quark_w8a8_int8.py, quark_w4a16_int4.py, quark_w8a8_fp8.py, quark_nvfp4.py
        (quark({"dtype": "fp6_e3m2", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}), 6.2),
        (quark({"dtype": "fp8_e4m3", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}), 8.2),
        (quark({"dtype": "int8", "qscheme": "per_channel"}, {"dtype": "int8", "is_dynamic": True}), 8.0),
        (quark({"dtype": "uint4", "qscheme": "per_group", "group_size": 32, "symmetric": False}), 4.6),
        (quark({"dtype": "fp8_e4m3", "qscheme": "per_block", "block_size": [128, 128]}, DYNAMIC), 8.0),
        (quark([{"dtype": "fp4", "group_size": 16}, {"dtype": "fp8_e4m3"}], [DYNAMIC, DYNAMIC]), 4.5),
        (quark([{"dtype": "fp8_e4m3"}, {"dtype": "int4", "qscheme": "per_channel"}], DYNAMIC), 4.0),
        # inc/inc.py: data_type and group_size of AutoRound
        ({"quant_method": "auto-round", "bits": 4, "group_size": 32, "data_type": "mx_fp"}, 4.2),
        ({"quant_method": "auto-round", "bits": 8, "group_size": 32, "data_type": "mx_fp"}, 8.2),
        ({"quant_method": "auto-round", "bits": 8, "group_size": [128, 128], "data_type": "fp"}, 8.0),
        # __init__.py: "mxfp8" is read as modelopt's MXFP8; modelopt.py: group_size of hf_quant_config.json
        ({"quant_method": "mxfp8"}, 8.2),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 32}, 4.3),
        ({"quant_method": "modelopt", "quant_algo": "FP8_BLOCK_SCALES"}, 8.0),
        # fp_quant.py
        ({"quant_method": "fp_quant", "forward_dtype": "nvfp4", "modules_to_not_convert": ["lm_head"]}, 4.5),
    ],
)
def test_bits_of_a_weight_by_format(quantization: dict[str, Any], bits: float) -> None:
    """The parameters that vLLM 0.29's own layers get on torch's meta device: Quark's fp4 and fp6, mxfp8 of AutoRound,
    modelopt and compressed-tensors, nvfp4 of these and of FP-Quant."""
    facts = read(LLAMA, **quantization)
    assert set(stored(facts).values()) == {bits}
    assert read_config(compact({**LLAMA, "quantization_config": quantization})) == facts


def test_quark_states_single_modules_by_wildcards_or_names() -> None:
    """quark/quark.py get_layer_quant_config_from_name; entries without weights are those of the KV cache."""
    modules = {
        "*mlp.down_proj": {"weight": {"dtype": "int8", "qscheme": "per_channel"}},
        "model.layers.1.self_attn.o_proj": {"weight": {"dtype": "int8", "qscheme": "per_channel"}},
        "*k_proj": {"output_tensors": DYNAMIC},
    }
    mx = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}
    facts = read(LLAMA, **quark(mx, layer_quant_config=modules, exclude=["lm_head", "re:.*gate_proj", "re:.*up_proj"]))
    assert stored(facts) == {"qkv_proj": 4.2, "o_proj": 4.2, "gate_up_proj": 16.0, "down_proj": 8.0}
    assert stored(facts, 1) == {"qkv_proj": 4.2, "o_proj": 8.0, "gate_up_proj": 16.0, "down_proj": 8.0}


def test_torchao_states_single_modules() -> None:
    """torchao.py get_quant_method: names, then expressions, then _default; null leaves a module as it is."""
    modules = {
        "_default": INT4,
        "re:.*down_proj": INT8,
        "model.layers.1.self_attn.o_proj": None,
    }
    kind = {"default": {"_type": "ModuleFqnToConfig", "_data": {"module_fqn_to_config": modules}}}
    facts = read(LLAMA, quant_method="torchao", quant_type=kind, modules_to_not_convert=["mlp.up_proj"])
    assert stored(facts) == {"qkv_proj": 4.6, "o_proj": 4.6, "gate_up_proj": 16.0, "down_proj": 8.0}
    assert stored(facts, 1)["o_proj"] == 16.0


def test_torchao_without_a_default_leaves_other_modules_alone() -> None:
    modules = {"re:.*down_proj": INT8}
    kind = {"default": {"_type": "ModuleFqnToConfig", "_data": {"module_fqn_to_config": modules}}}
    assert stored(read(LLAMA, quant_method="torchao", quant_type=kind)) == {**PLAIN, "down_proj": 8.0}


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}


@pytest.mark.parametrize("part", ["self_attn", "layers.0.self", "0.self_attn."])
def test_awq_lists_parts_of_names(part: str) -> None:
    """auto_awq.py: match_mode "substring"; awq.py is_layer_skipped_awq in 0.10.2."""
    facts = read(LLAMA, **AWQ, modules_to_not_convert=[part])
    assert stored(facts) == {"qkv_proj": 16.0, "o_proj": 16.0, "gate_up_proj": 4.2, "down_proj": 4.2}


def test_a_part_of_a_projection_s_name_does_not_reach_the_experts() -> None:
    """A router that stays in 16 bits is called gate, and so begins a projection of the experts."""
    assert stored(read(MIXTURE, **AWQ, modules_to_not_convert=["gate"]))["experts"] == 4.2
    assert stored(read(MIXTURE, **AWQ, modules_to_not_convert=["experts"]))["experts"] == 16.0


def test_modelopt_excludes_by_parts_of_names() -> None:
    """modelopt.py is_layer_excluded: exact, part of a name, wildcard."""
    facts = read(LLAMA, quant_method="modelopt", quant_algo="NVFP4", ignore=["layers.1.self_attn", "*layers.2.mlp*"])
    assert stored(facts, 0) == {"qkv_proj": 4.5, "o_proj": 4.5, "gate_up_proj": 4.5, "down_proj": 4.5}
    assert stored(facts, 1) == {"qkv_proj": 16.0, "o_proj": 16.0, "gate_up_proj": 4.5, "down_proj": 4.5}
    assert stored(facts, 2) == {"qkv_proj": 4.5, "o_proj": 4.5, "gate_up_proj": 16.0, "down_proj": 16.0}


def test_the_output_head_of_awq_is_quantized_where_the_config_says_so() -> None:
    """auto_awq.py: lm_head."""
    assert read(LLAMA, **AWQ).head_scheme is None
    assert read(LLAMA, **AWQ, lm_head=True).head_scheme is not None


def test_fp8_checkpoints_may_store_their_experts_in_mxfp4() -> None:
    """fp8.py: store_dtype."""
    found = stored(read(MIXTURE, quant_method="fp8", weight_block_size=[128, 128], store_dtype="mxfp4"))
    assert (found["qkv_proj"], found["experts"]) == (8.0, 4.2)


def compressed(targets: list[str], **weights: Any) -> dict[str, Any]:
    return {"targets": targets, "weights": {"num_bits": 8, "type": "float", "strategy": "channel", **weights}}


NVFP4 = {
    **compressed(["Linear"], num_bits=4, strategy="tensor_group", group_size=16),
    "input_activations": {"num_bits": 4, "type": "float", "dynamic": "local"},
}


@pytest.mark.parametrize(
    ("groups", "bits"),
    [
        ([NVFP4], {"qkv_proj": 4.5, "experts": 4.5}),
        ([compressed(["Linear"], strategy="group", group_size=32)], {"qkv_proj": 8.2, "experts": 8.2}),
        ([compressed(["Linear"]), compressed(["Qwen3MoeAttention"], num_bits=4)], {"qkv_proj": 8.0, "experts": 8.0}),
        ([compressed(["RoutedExperts"])], {"qkv_proj": 16.0, "experts": 8.0}),
    ],
    ids=["nvfp4", "mxfp8", "attention", "experts"],
)
def test_groups_of_compressed_tensors(groups: list[dict[str, Any]], bits: dict[str, float]) -> None:
    """compressed_tensors/compressed_tensors.py: from_config, _is_nvfp4_format, _is_mxfp8, RoutedExperts."""
    named = {f"group_{index}": group for index, group in enumerate(groups)}
    found = stored(read(MIXTURE, quant_method="compressed-tensors", format="mixed", config_groups=named))
    assert {name: found[name] for name in bits} == bits


@pytest.mark.parametrize("kind", ["float", "int"])
def test_a_cache_in_another_type_than_fp8_is_not_taken_for_it(kind: str) -> None:
    scheme = {"num_bits": 8 if kind == "float" else 4, "type": kind}
    facts = read(LLAMA, quant_method="compressed-tensors", config_groups={}, kv_cache_scheme=scheme)
    assert facts.quantization is not None
    assert facts.quantization.kv_cache_dtype == ("fp8" if kind == "float" else None)


def test_algorithms_of_modelopt_that_no_release_has_are_named() -> None:
    with pytest.raises(UserError, match='quant_algo "W4A16_AWQ" is not one that vLLM has'):
        read(LLAMA, quant_method="modelopt", quant_algo="W4A16_AWQ")


def test_a_type_that_quark_s_reader_does_not_have_is_named() -> None:
    with pytest.raises(UserError, match='Quark\'s weights of "fp3"'):
        read(LLAMA, **quark({"dtype": "fp3"}))


@pytest.mark.parametrize(
    ("quantization", "assumed"),
    [
        ({"quant_method": "awq"}, "4 bits and groups of 128"),
        ({"quant_method": "awq", "w_bit": 4}, "groups of 128"),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, ""),
        ({"quant_method": "gptq", "bits": 8}, "groups of 128"),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, ""),
        ({"quant_method": "auto-round", "data_type": "mx_fp"}, "4 bits"),
        ({"quant_method": "torchao", "quant_type": 7}, "8 bits"),
        ({"quant_method": "torchao", "quant_type": "autoquant"}, "8 bits"),
        ({"quant_method": "torchao", "quant_type": {"default": INT8}}, ""),
        ({"quant_method": "fp8", "producer": {"name": "modelopt"}}, ""),
        ({"producer": {"name": "modelopt"}}, "8 bits"),
        (quark({"qscheme": "per_channel"}), "8 bits"),
    ],
)
def test_what_the_config_does_not_state_is_assumed_and_said(quantization: dict[str, Any], assumed: str) -> None:
    found = read(LLAMA, **quantization).quantization
    assert found is not None
    assert found.assumed == assumed
