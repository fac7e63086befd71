"""The KV cache: pages, groups, blocks of a request, against vLLM's own layout."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rayllm_ctl.model.plan.facts import AttentionCache, LatentCache, Layer, Quantization, StateCache
from rayllm_ctl.planner.memory.engine import cache_policy, in_flight_tokens, state_blocks
from rayllm_ctl.planner.memory.kvcache import align_hybrid, group_layers
from rayllm_ctl.planner.memory.layout import cache_element
from rayllm_ctl.planner.memory.pages import CacheShape, pages_of, state_bytes
from tests.planner.facts import dense
from tests.planner.known import estimated, facts_of

GIB = 2**30
FULL = AttentionCache(8, 128, 128)
SLIDING = AttentionCache(8, 128, 128, window=1024)
SHAPE = CacheShape(1, 2.0, 2, 16)
NEW = cache_policy((0, 29, 0))


def layers(*counts: tuple[AttentionCache | LatentCache | StateCache, int]) -> list[Layer]:
    return [Layer(caches=(cache,)) for cache, count in counts for _ in range(count)]


def test_a_page_holds_keys_and_values_of_the_ranks_heads() -> None:
    assert pages_of(FULL, SHAPE).bytes == 8 * 256 * 16 * 2
    assert pages_of(FULL, replace(SHAPE, tensor=4)).bytes == 2 * 256 * 16 * 2
    assert pages_of(FULL, replace(SHAPE, tensor=16)).bytes == 256 * 16 * 2
    assert pages_of(FULL, replace(SHAPE, element_bytes=1.0)).bytes == 8 * 256 * 16


def test_a_latent_vector_is_not_divided() -> None:
    cache = LatentCache(576, rope_width=64)
    assert pages_of(cache, replace(SHAPE, tensor=8, block=64)).bytes == 576 * 64 * 2
    packed = replace(SHAPE, element_bytes=1.0, block=64, fp8=True, packed_latent=True)
    assert pages_of(cache, packed).bytes == 656 * 64


def test_a_window_keeps_what_it_sees_and_one_block_more() -> None:
    pages = pages_of(SLIDING, SHAPE)
    assert pages.per_request(100_000, 8192) == -(-(1023 + 8192) // 16) + 1
    assert pages.per_request(100_000, 8193) == (1023 + 8193) // 16 + 1
    assert pages.per_request(160, 8192) == 11


def test_chunks_round_up_without_a_further_block() -> None:
    assert pages_of(AttentionCache(8, 128, 128, chunk=8192), SHAPE).per_request(10**6, 8192) == 1024


def test_equal_layers_share_one_group() -> None:
    layout = group_layers([layers((FULL, 32))], SHAPE, NEW, 8192)
    assert [(pages.kind, count) for pages, count in layout.groups] == [("full", 32)]
    assert layout.bytes_per_block == 32 * 65536


def test_kinds_of_different_size_make_groups_of_the_smaller_size() -> None:
    """Gemma 3 27B: 10 full and 52 sliding layers make 1 + 6 groups (kv_cache_utils.py)."""
    layout = group_layers([layers((FULL, 10), (SLIDING, 52))], SHAPE, NEW, 8192)
    assert [count for _, count in layout.groups] == [10, 9, 9, 9, 9, 8, 8]
    assert layout.bytes_per_block == 10 * 65536


@pytest.mark.parametrize(("release", "groups"), [((0, 11, 0), 3), ((0, 15, 0), 2), ((0, 19, 0), 2)])
def test_kinds_of_nearly_one_size_are_padded_to_the_larger(release: tuple[int, int, int], groups: int) -> None:
    layout = group_layers([layers((FULL, 20), (SLIDING, 24))], SHAPE, cache_policy(release), 8192)
    assert len(layout.groups) == groups


def test_chunked_layers_were_kept_whole_before_0_14() -> None:
    mixed = layers((FULL, 12), (AttentionCache(8, 128, 128, chunk=8192), 36))
    assert len(group_layers([mixed], SHAPE, cache_policy((0, 13, 0)), 8192).groups) == 1
    assert len(group_layers([mixed], SHAPE, cache_policy((0, 14, 0)), 8192).groups) == 4


def test_a_block_grows_until_a_recurrent_state_fits() -> None:
    state = StateCache("gdn", conv=(8192, 3), ssm=(32, 128, 128))
    mixed = layers((AttentionCache(2, 256, 256), 12), (state, 36))
    block, padded = align_hybrid(mixed, SHAPE)
    assert block % 16 == 0
    assert padded >= state_bytes(state, SHAPE) > padded - 16 * 2 * 512 * 2
    assert align_hybrid(layers((FULL, 4)), SHAPE) == (0, 0)


def test_groups_of_a_convolution_are_padded_up_to_the_ranks() -> None:
    state = StateCache("mamba2", conv=(4096, 3), ssm=(64, 64, 128), conv_groups=(1, 256))
    assert state_bytes(state, replace(SHAPE, tensor=4)) == (1024 + 256) * 3 * 2 + 16 * 64 * 128 * 2


def test_states_that_a_request_holds() -> None:
    def blocks(release: tuple[int, int, int], *, scans: bool, prefix: bool | None = None) -> int:
        return state_blocks(release, prefix_caching=prefix, scans=scans, length=8192, block=512)

    assert blocks((0, 10, 2), scans=False) == 1
    assert blocks((0, 19, 0), scans=False) == 1
    assert blocks((0, 19, 0), scans=False, prefix=True) == 2
    assert blocks((0, 29, 0), scans=False) == 2
    assert blocks((0, 29, 0), scans=False, prefix=False) == 1
    assert blocks((0, 26, 0), scans=True, prefix=True) == 16
    assert [blocks((0, minor, 0), scans=True) for minor in (25, 26, 27, 28)] == [1, 1, 1, 2]
    assert [blocks((0, minor, 0), scans=False) for minor in (25, 26, 27, 28)] == [1, 1, 1, 2]
    assert blocks((0, 32, 0), scans=True) == 3


def test_batches_in_flight_grew_with_0_26() -> None:
    assert in_flight_tokens((0, 25, 1), tokens=8192, pipeline=1, second_runner=False) == 8192
    assert in_flight_tokens((0, 27, 0), tokens=8192, pipeline=1, second_runner=False) == 16384
    assert in_flight_tokens((0, 29, 0), tokens=8192, pipeline=2, second_runner=True) == 24576


def test_stages_of_a_pipeline_share_one_grouping() -> None:
    one = group_layers([layers((FULL, 32))], SHAPE, NEW, 8192)
    two = group_layers([layers((FULL, 17)), layers((FULL, 15))], SHAPE, NEW, 8192)
    assert two.bytes_per_block == 17 * 65536
    assert two.blocks_per_request(8192) == one.blocks_per_request(8192)


def test_layers_of_qwen_4_lie_side_by_side() -> None:
    """Groups that vLLM 0.29's get_kv_cache_groups makes of the 48 layers of Qwen 4 Exp at TP 1 and 2."""
    ring, pooled = LatentCache(140, kind="ring", window=4, block=4), LatentCache(128, kind="pooled", stride=4)
    delta = StateCache("gdn", conv=(10240, 3), ssm=(48, 128, 128), ssm_float32=True)
    runs = StateCache("short_conv", conv=(10240, 9), replicated=True)
    held = layers((delta, 36), (runs, 1), (AttentionCache(2, 256, 256), 12), (ring, 12), (pooled, 12))
    for tensor, block_bytes in ((1, 39739392), (2, 20471808)):
        shape = replace(SHAPE, tensor=tensor, state_blocks=2)
        shape = replace(shape, block=align_hybrid(held, shape)[0])
        layout = group_layers([held], shape, NEW, 0)
        assert shape.block == 1568
        assert layout.bytes_per_block == block_bytes
        found = [(pages.kind, count, pages.per_request(4096, 0)) for pages, count in layout.groups]
        assert found == [("state", 12, 2)] * 3 + [("state", 1, 2), ("full", 24, 3), ("ring", 12, 1)]


@pytest.mark.parametrize(
    ("name", "fp8", "block_bytes", "groups"),
    [
        ("deepseek-ai/DeepSeek-V4-Flash", False, 1606464, [20, 21, 22, 42, 62]),
        ("deepseek-ai/DeepSeek-V4-Flash", True, 1002240, [20, 21, 22, 42, 62]),
        ("deepseek-ai/DeepSeek-V4-Pro", True, 1435968, [30, 31, 31, 60, 91]),
    ],
)
def test_layers_of_deepseek_v4_lie_side_by_side(name: str, fp8: bool, block_bytes: int, groups: list[int]) -> None:
    """What vLLM 0.29's _get_packed_kv_cache_groups makes of specs of these pages."""
    shape = replace(SHAPE, block=256, fp8=fp8, element_bytes=1.0 if fp8 else 2.0)
    layout = group_layers([facts_of(name).layers], shape, NEW, 0)
    assert layout.bytes_per_block == block_bytes
    assert sorted(count for _, count in layout.groups) == groups


def test_what_convolutions_keep_has_blocks_of_its_own() -> None:
    """A short convolution's window: four tokens to a block, in the model's own type whatever the cache's."""
    kept = AttentionCache(16, 1024, 0, window=4, block=4)
    for shape in (SHAPE, replace(SHAPE, element_bytes=1.0, block=64)):
        pages = pages_of(kept, shape)
        assert (pages.block, pages.bytes, pages.per_request(10**5, 0)) == (4, 131072, 2)


def test_the_groups_of_inkling() -> None:
    """What vLLM 0.29's get_kv_cache_groups makes of its 66 layers at TP 2, with 2048 tokens in flight."""
    local, full = AttentionCache(16, 128, 128, window=512), AttentionCache(8, 128, 128)
    kept = [AttentionCache(heads, width, 0, window=4, block=4) for heads, width in ((16, 1024), (8, 2048))]
    held = layers((local, 55), (kept[0], 55), (full, 11), (kept[1], 11))
    layout = group_layers([held], replace(SHAPE, tensor=2), NEW, 2048)
    assert layout.bytes_per_block == 720896
    found = sorted((pages.per_request(4096, 2048), count) for pages, count in layout.groups)
    assert found == [(128, 11)] + [(161, 11)] * 5 + [(514, 11)] * 6


def test_a_ring_grows_with_the_tokens_that_are_guessed() -> None:
    ring = LatentCache(140, kind="ring", window=4, block=4)
    assert [pages_of(ring, replace(SHAPE, speculative=n)).bytes // 280 for n in (0, 1, 4, 5)] == [4, 8, 8, 12]


def test_deepseek_v4_needs_what_vllm_0_22_says() -> None:
    """vllm#44376: "6.66 GiB KV cache is needed" for 30,000 tokens at TP 2 with an fp8 cache; the batch had 16,384."""
    found = estimated(
        "deepseek-ai/DeepSeek-V4-Flash", "GH200-96GB", "0.22.1", length=30000, tensor=2, kv="fp8", tokens=16384
    )
    assert found.kv_bytes_per_request / GIB == pytest.approx(6.66, abs=0.005)


@pytest.mark.parametrize(
    ("name", "gpu", "version", "length", "tensor", "tokens", "gib"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "H100-80GB", "0.19.0", 8192, 1, None, 1.0),
        ("meta-llama/Llama-3.1-8B-Instruct", "A100-40GB", "0.15.1", 131072, 1, None, 16.0),
        ("Qwen/Qwen3-14B", "L40S", "0.29.0", 40960, 1, None, 6.25),
        ("Qwen/Qwen2.5-72B", "H100-80GB", "0.29.0", 131072, 1, None, 40.0),
    ],
)
def test_what_one_request_needs(
    name: str, gpu: str, version: str, length: int, tensor: int, tokens: int | None, gib: float
) -> None:
    """As vLLM says where it refuses to start ("... GiB KV cache is needed")."""
    found = estimated(name, gpu, version, length=length, tensor=tensor, tokens=tokens)
    assert found.kv_bytes_per_request / GIB == pytest.approx(gib, rel=1e-3)
    assert found.plan.kv_needed_bytes == found.kv_bytes_per_request


def test_an_automatic_cache_follows_the_checkpoint_since_0_14() -> None:
    """Of modelopt's checkpoints; those of compressed-tensors were always followed."""
    modelopt = Quantization("modelopt", "FP8", 8, kv_cache_dtype="fp8")
    other = Quantization("compressed-tensors", "FP8", 8, kv_cache_dtype="fp8")
    assert cache_element("auto", replace(dense(), quantization=modelopt), (0, 13, 0), 2) == (2.0, False)
    assert cache_element("auto", replace(dense(), quantization=modelopt), (0, 14, 0), 2) == (1.0, True)
    assert cache_element("auto", replace(dense(), quantization=other), (0, 13, 0), 2) == (1.0, True)
    assert cache_element("auto", dense(), (0, 29, 0), 4) == (4.0, False)
    assert cache_element("fp8_e5m2", dense(), (0, 29, 0), 2) == (1.0, True)
    assert cache_element("nvfp4", dense(), (0, 29, 0), 2) == (0.5625, False)


def test_the_longest_context_is_the_longest_that_fits() -> None:
    found = estimated(dense(max_model_len=10**6), "L4", "0.29.0", utilization=0.95)
    for blocks, longest in zip(
        (found.blocks.low, found.blocks.typical),
        (found.longest_context.low, found.longest_context.typical),
        strict=True,
    ):
        assert longest == max(0, int(blocks) - 1) * 16


def test_a_model_without_attention_layers_still_has_an_answer() -> None:
    facts = replace(dense(), layers=tuple(replace(layer, caches=()) for layer in dense().layers))
    found = estimated(facts)
    assert found.plan.max_concurrency.typical > 0
    assert found.longest_context.typical == facts.max_model_len
