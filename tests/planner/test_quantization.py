"""Quantizations that releases of vLLM and GPUs take: of checkpoints, and while loading."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.catalog.modelconfig import read_config
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.planner.memory.estimate import online_scheme
from rayllm_ctl.planner.memory.shards import ShardSettings, expert_tensors, linear_tensors
from tests.catalog.test_modelconfig import LLAMA
from tests.planner.facts import dense, moe
from tests.planner.gpus import H100
from tests.planner.known import facts_of
from tests.planner.test_plan import codes, plan

GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
GROUP = {"targets": ["Linear"], "weights": {"num_bits": 4, "strategy": "group", "group_size": 128, "actorder": "group"}}
COMPRESSED = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": GROUP}}

MX = {"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp", "group_size": 32}


def quantized(**quantization: Any) -> ModelFacts:
    return read_config({**LLAMA, "hidden_size": 2048, "quantization_config": quantization})


@pytest.mark.parametrize(
    ("quantization", "version", "code"),
    [
        # utils/gptq_utils.py, compressed_tensors.py: activation order is rejected in 0.30 and not in 0.29
        ({**GPTQ, "desc_act": True}, "0.29.0", ""),
        ({**GPTQ, "desc_act": True}, "0.30.0", "quantization-removed"),
        ({**GPTQ, "desc_act": True, "group_size": -1}, "0.30.0", ""),
        (COMPRESSED, "0.29.0", ""),
        (COMPRESSED, "0.30.0", "quantization-removed"),
        # gptq.py is there in 0.21; auto_gptq.py TYPE_MAP of 0.22 has symmetric weights of 4 and 8 bits
        ({**GPTQ, "sym": False}, "0.21.0", ""),
        ({**GPTQ, "sym": False}, "0.22.0", "quantization-removed"),
        ({**GPTQ, "bits": 2}, "0.21.0", ""),
        ({**GPTQ, "bits": 2}, "0.22.0", "quantization-shape"),
        # inc/schemes/inc_wna16_scheme.py CUDA_HUMMING_SUPPORTED_BITS of 0.30; inc.py SUPPORTED_BITS of 0.22
        ({"quant_method": "auto-round", "bits": 2}, "0.29.0", "quantization-shape"),
        ({"quant_method": "auto-round", "bits": 2}, "0.30.0", ""),
        ({"quant_method": "auto-round", "bits": 4}, "0.9.2", ""),
        (MX, "0.22.0", "quantization-unknown"),
        (MX, "0.24.0", ""),
        # awq_marlin.py TYPE_MAP of 0.11.1 and 0.12
        ({"quant_method": "awq", "bits": 8, "group_size": 128}, "0.11.1", ""),
        ({"quant_method": "awq", "bits": 8, "group_size": 128}, "0.12.0", "quantization-shape"),
        # modelopt.py QUANT_ALGOS
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, "0.13.0", "quantization-unknown"),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, "0.14.0", ""),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"}, "0.20.0", "quantization-unknown"),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"}, "0.21.0", ""),
        # compressed_tensors_24.py is there in 0.18 and not in 0.19
        ({**COMPRESSED, "sparsity_config": {"targets": ["Linear"]}}, "0.18.0", ""),
        ({**COMPRESSED, "sparsity_config": {"targets": ["Linear"]}}, "0.19.0", "quantization-removed"),
    ],
)  # fmt: skip
def test_what_a_checkpoint_has_is_served_by_some_releases_alone(
    quantization: dict[str, Any], version: str, code: str
) -> None:
    found = plan(quantized(**quantization), H100, version=version)
    assert (found.verdict, codes(found)[:1]) == (("invalid", [code]) if code else ("fits", codes(found)[:1]))


def test_the_first_release_that_serves_a_checkpoint_is_named() -> None:
    found = plan(quantized(quant_method="modelopt", quant_algo="MXFP8"), H100, version="0.15.0")
    assert "modelopt_mxfp8, which vLLM 0.15.0 does not support" in found.reasons[0].message
    found = plan(quantized(quant_method="modelopt", quant_algo="FP8_PB_WO"), H100, version="0.13.0")
    assert found.reasons[0].suggestion == "--vllm-version 0.14.0"


@pytest.mark.parametrize("wanted", ["modelopt", "modelopt_fp4", "modelopt_mixed"])
def test_modelopt_s_names_read_the_same_checkpoints(wanted: str) -> None:
    """modelopt.py override_quantization_method chooses by quant_algo, whichever of its names was asked for."""
    facts = quantized(quant_method="modelopt", quant_algo="FP8")
    assert plan(facts, H100, version="0.29.0", quantization=wanted).verdict == "fits"


@pytest.mark.parametrize(
    ("method", "linear", "experts"),
    [
        ("fp8", 8.0, 8.0),
        ("fp8_per_channel", 8.0, 8.0),
        ("fp8_per_block", 8.0, 8.0),
        ("mxfp8", 8.2, 8.2),
        ("mxfp4", 4.2, 4.2),
        ("int8_per_channel_weight_only", 16.0, 8.0),
        ("experts_int8", 16.0, 8.0),
        ("nvfp4_per_token", 16.0, 4.5),
    ],
)
def test_what_is_quantized_while_loading(method: str, linear: float, experts: float) -> None:
    """config/quantization.py _ONLINE_SHORTHANDS of 0.33; experts_int8.py: some methods have no `linear`."""
    shape = ShardSettings(online=online_scheme(method))
    layer = moe().layers[0]
    output, group = layer.linears[1], layer.experts[0]
    bits = 8 * sum(linear_tensors(output, shape)) / output.parameters
    assert round(bits, 1) == linear
    assert round(8 * sum(expert_tensors(group, shape)) / (group.count * group.per_expert), 1) == experts


def test_fp8_while_loading_is_called_otherwise_since_0_31() -> None:
    """quantization/fp8.py of 0.31: "no longer supports online quantization"; not in 0.30."""
    assert plan(dense(), H100, version="0.30.0", quantization="fp8").verdict == "fits"
    found = plan(dense(), H100, version="0.31.0", quantization="fp8")
    assert (found.verdict, codes(found)) == ("invalid", ["quantization-needs-checkpoint"])
    assert [change.flags for change in found.suggestions] == ["--quantization fp8_per_tensor"]
    assert plan(dense(), H100, version="0.31.0", quantization="fp8_per_tensor").verdict == "fits"
    fp8 = quantized(quant_method="fp8")
    assert plan(fp8, H100, version="0.31.0", quantization="fp8").verdict == "fits"


def test_what_is_suggested_for_a_large_model_has_the_name_of_the_release() -> None:
    large = dense(layers=64, hidden=6144, heads=48, kv_heads=8, intermediate=24576, max_model_len=8192)
    for version, name in (("0.30.0", "fp8"), ("0.33.0", "fp8_per_tensor")):
        suggested = [change.flags for change in plan(large, H100, version=version, tp=1).suggestions]
        assert f"--quantization {name}" in suggested


@pytest.mark.parametrize(("method", "since"), [("mxfp4", "0.28.0"), ("mxfp8", "0.22.0")])
def test_methods_of_checkpoints_that_quantize_while_loading_do_so_since_a_release(method: str, since: str) -> None:
    """config/quantization.py _ONLINE_SHORTHANDS: mxfp4 is there in 0.28 and not in 0.27."""
    before = {"0.28.0": "0.27.0", "0.22.0": "0.21.0"}[since]
    assert plan(dense(), H100, version=since, quantization=method).verdict == "fits"
    assert plan(dense(), H100, version=before, quantization=method).verdict == "invalid"


def test_experts_that_only_blackwell_quantizes_while_loading() -> None:
    """online/nvfp4.py of 0.33: FlashInfer TRT-LLM's kernel alone."""
    found = plan(facts_of("Qwen/Qwen3-30B-A3B"), H100, version="0.33.0", quantization="nvfp4_per_token")
    assert codes(found)[0] == "quantization-needs-newer-gpu"


def test_quantization_by_layer_while_loading_is_not_counted() -> None:
    """config/quantization.py QuantizationConfigArgs: linear, moe, ignore, targets."""
    args = {"quantization_config": {"linear": "fp8_per_block", "ignore": ["re:.*o_proj"]}}
    found = plan(dense(), H100, version="0.29.0", args=args)
    assert (found.verdict, codes(found)) == ("risky", ["quantization-config-not-counted"])
    assert "planned as the checkpoint has them" in found.reasons[0].message
