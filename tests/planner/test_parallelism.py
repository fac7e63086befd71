from __future__ import annotations

from dataclasses import replace

import pytest

from rayllm_ctl.planner.engine.parallelism import (
    Division,
    layout_problem,
    nearest_tensor_sizes,
    node_layouts,
    sharding_problem,
    staged_layouts,
    valid_tensor_sizes,
)
from tests.planner.facts import FP8_BLOCK, dense, moe
from tests.planner.gpus import H100, T4
from tests.planner.known import facts_of

NOW = Division((0, 29, 0), computes_fp8=True)


@pytest.mark.parametrize("tensor", [1, 2, 4, 8])
def test_sizes_that_divide_heads_are_accepted(tensor: int) -> None:
    assert sharding_problem(dense(), tensor, NOW) is None


def test_tensor_size_that_does_not_divide_the_heads_is_named() -> None:
    problem = sharding_problem(dense(heads=28, kv_heads=4, hidden=3584, intermediate=18944), 8, NOW)
    assert problem is not None
    assert problem.code == "tensor-parallel-heads"
    assert "28 attention heads" in problem.message


def test_kv_heads_are_replicated_where_ranks_are_a_multiple() -> None:
    facts = dense(kv_heads=2)
    assert sharding_problem(facts, 8, NOW) is None
    problem = sharding_problem(dense(heads=36, kv_heads=4, hidden=4608), 6, NOW)
    assert problem is not None
    assert problem.code == "tensor-parallel-kv-heads"


def test_a_shard_must_hold_whole_quantization_blocks() -> None:
    """An MoE of 2560 columns in blocks of 128 divides into 2 and 4 (1280, 640) but not into 8 (320)."""
    before = Division((0, 28, 0))
    facts = moe(intermediate=2560, scheme=FP8_BLOCK)
    assert sharding_problem(facts, 4, before) is None
    problem = sharding_problem(facts, 8, before)
    assert problem is not None
    assert problem.code == "tensor-parallel-quantization-block"
    assert "320" in problem.message
    assert sharding_problem(facts, 8, replace(before, expert_parallel=True)) is None


@pytest.mark.parametrize(
    ("intermediate", "method", "fits"), [(2560, "fp8", True), (1664, "fp8", False), (2560, "compressed-tensors", False)]
)
def test_scales_of_experts_are_refined_to_blocks_of_32_at_least(intermediate: int, method: str, fits: bool) -> None:
    """320 columns a rank hold whole blocks of 64, 208 only of 16; other libraries' formats are not refined."""
    facts = moe(intermediate=intermediate, scheme=replace(FP8_BLOCK, method=method))
    assert (sharding_problem(facts, 8, NOW) is None) is fits
    assert sharding_problem(facts, 8, replace(NOW, computes_fp8=False)) is not None


def test_a_projection_must_hold_whole_blocks_too() -> None:
    """KV heads of 64 in blocks of 128: two heads a rank are one block, one head is half of one."""
    before = Division((0, 13, 0))
    facts = dense(heads=32, kv_heads=4, head_dim=64, hidden=2048, intermediate=8192, scheme=FP8_BLOCK)
    assert sharding_problem(facts, 2, before) is None
    problem = sharding_problem(facts, 4, before)
    assert problem is not None
    assert problem.code == "tensor-parallel-quantization-block"


def test_parts_of_a_merged_projection_may_end_within_a_block() -> None:
    """Since vLLM 0.14 and for its own format; not what is a projection by itself, and not the rows of one."""
    sizes = {"heads": 32, "kv_heads": 4, "head_dim": 64, "hidden": 2048, "intermediate": 8192}
    assert sharding_problem(dense(**sizes, scheme=FP8_BLOCK), 4, Division((0, 14, 0))) is None
    foreign = dense(**sizes, scheme=replace(FP8_BLOCK, method="compressed-tensors"))
    assert sharding_problem(foreign, 4, NOW) is not None
    rows = sharding_problem(dense(**{**sizes, "intermediate": 8256}, scheme=FP8_BLOCK), 4, NOW)
    assert rows is not None
    assert "mlp.down_proj" in rows.message


def test_more_gpus_than_a_node_has_is_refused_with_the_reason() -> None:
    problem = layout_problem(dense(), H100, 16, 1, NOW)
    assert problem is not None
    assert problem.code == "tensor-parallel-across-nodes"
    assert "pods with one GPU each answered 2.32, 0.98 and 0.59 requests/s at TP 1, 2 and 4" in problem.message


def test_more_stages_than_layers_are_refused() -> None:
    problem = layout_problem(dense(layers=4), H100, 1, 5, NOW)
    assert problem is not None
    assert problem.code == "pipeline-exceeds-layers"


def test_nearest_sizes_are_on_both_sides() -> None:
    assert nearest_tensor_sizes(dense(), H100, 3, NOW) == (2, 4)
    assert nearest_tensor_sizes(dense(), H100, 16, NOW) == (8,)
    assert valid_tensor_sizes(dense(), H100, NOW) == (1, 2, 4, 8)
    assert valid_tensor_sizes(dense(), T4, NOW) == (1,)


def test_sizes_that_no_model_can_have_are_not_counted_up_to() -> None:
    found = nearest_tensor_sizes(dense(), H100, 2**60, NOW, across_nodes=True)
    assert found == nearest_tensor_sizes(dense(), H100, 2000, NOW, across_nodes=True)
    assert len(found) == 1


def test_layouts_fill_one_node_before_they_take_a_second() -> None:
    assert node_layouts(H100, None, None) == [(1, 1), (2, 1), (4, 1), (8, 1)]
    assert node_layouts(H100, 3, None) == [(3, 1)]
    assert node_layouts(H100, None, 2) == [(1, 2), (2, 2), (4, 2), (8, 2)]
    assert staged_layouts(dense(), H100, NOW) == [(8, 2), (8, 3), (8, 4), (8, 6), (8, 8)]
    assert staged_layouts(dense(heads=28, kv_heads=4, hidden=3584, intermediate=18944, layers=3), H100, NOW) == [
        (4, 2),
        (4, 3),
    ]


def test_the_first_parts_of_a_merged_projection_fill_their_blocks_on_one_gpu_too() -> None:
    """utils/fp8_utils.py validate_fp8_block_shape: is_merged_gemm, 0.16 to 0.33. Keys of 64 end within a block."""
    narrow = {"heads": 32, "kv_heads": 1, "head_dim": 64, "hidden": 2048, "intermediate": 5632}
    for scheme, since, fits in (
        (FP8_BLOCK, (0, 29, 0), True),
        (FP8_BLOCK, (0, 13, 0), False),
        (replace(FP8_BLOCK, method="compressed-tensors"), (0, 29, 0), False),
        (replace(FP8_BLOCK, method="modelopt"), (0, 29, 0), True),
    ):
        problem = sharding_problem(dense(**narrow, scheme=scheme), 1, Division(since, computes_fp8=True))
        assert (problem is None) is fits
        assert problem is None or "shards of 64 columns" in problem.message


def test_minimax_runs_on_eight_gpus_with_its_experts_whole() -> None:
    """MiniMax' own recipe for vLLM: TP 8 with enable_expert_parallel on eight H200; 192 columns a rank are no whole
    block (validate_fp8_block_shape_moe), which 0.29 refines on GPUs that compute in fp8."""
    facts = facts_of("MiniMaxAI/MiniMax-M2.5")
    old = Division((0, 17, 0), computes_fp8=True)
    divided = sharding_problem(facts, 8, old)
    assert divided is not None
    assert divided.code == "tensor-parallel-quantization-block"
    assert sharding_problem(facts, 8, replace(old, expert_parallel=True)) is None
