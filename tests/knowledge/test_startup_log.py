"""Start-up logs as rows of tests/data/measured.json. Sentences are those of vLLM 0.11, 0.19 and 0.33."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.knowledge.startup_log import MEASURED, row_of, written

_CONFIG = (
    "model='Qwen/Qwen3-14B', speculative_config=None, tokenizer='Qwen/Qwen3-14B', dtype=torch.bfloat16, "
    "max_seq_len=8192, load_format=auto, tensor_parallel_size={tensor}, pipeline_parallel_size=1, quantization=None, "
    "enforce_eager={eager}, kv_cache_dtype=auto, seed=0"
)


def log(version: str, *lines: str, tensor: int = 1, eager: bool = False, arguments: str | None = "{}") -> list[str]:
    config = _CONFIG.format(tensor=tensor, eager=eager)
    engine = f"(EngineCore pid=1) INFO [core.py:106] Initializing a V1 LLM engine (v{version}) with config: {config}"
    stated = [f"(APIServer pid=1) INFO [utils.py:299] non-default args: {arguments}"] if arguments else []
    return [*stated, engine, *lines]


def row(lines: list[str], **more: Any) -> dict[str, Any]:
    return row_of(lines, "H100-80GB", "github owner/repo@1 run.log", **more)


def test_a_start_that_ran() -> None:
    lines = log(
        "0.19.0",
        "INFO [gpu_model_runner.py:4821] Model loading took 27.52 GiB memory and 6.250000 seconds",
        "INFO [gpu_worker.py:437] Available KV cache memory: 41.94 GiB",
        "INFO [kv_cache_utils.py:1319] GPU KV cache size: 274,832 tokens",
        "INFO [kv_cache_utils.py:1325] Maximum concurrency for 8,192 tokens per request: 33.55x",
        arguments="{'model': 'Qwen/Qwen3-14B', 'max_model_len': 8192, 'gpu_memory_utilization': 0.95, 'port': 8001}",
    )
    assert row(lines) == {
        "model": "Qwen/Qwen3-14B",
        "gpu": "H100-80GB",
        "tensor": 1,
        "pipeline": 1,
        "vllm": "0.19.0",
        "maxModelLen": 8192,
        "dtype": "bfloat16",
        "utilization": 0.95,
        "outcome": "ok",
        "weightsGiB": 27.52,
        "kvGiB": 41.94,
        "tokens": 274832,
        "concurrency": 33.55,
        "judged": ["weightsGiB", "kvGiB", "tokens", "concurrency"],
        "tier": "core",
        "source": "github owner/repo@1 run.log",
    }


def test_of_several_ranks_the_heaviest_weights_and_the_smallest_cache_count() -> None:
    lines = log(
        "0.33.0",
        "(Worker_TP0 pid=7) INFO Model loading took 13.76 GiB memory and 3.1 seconds",
        "(Worker_TP1 pid=8) INFO Model loading took 13.77 GiB memory and 3.2 seconds",
        "(Worker_TP0 pid=7) INFO Available KV cache memory: 55.81 GiB",
        "(Worker_TP1 pid=8) INFO Available KV cache memory: 55.79 GiB",
        "INFO GPU KV cache size: 731,200 tokens, Maximum concurrency for 8,192 tokens per request: 89.26x",
        tensor=2,
    )
    found = row(lines)
    assert (found["tensor"], found["weightsGiB"], found["kvGiB"]) == (2, 13.77, 55.79)
    assert (found["tokens"], found["concurrency"]) == (731200, 89.26)


def test_flags_that_have_a_field_and_those_that_have_none() -> None:
    arguments = (
        "{'max_num_seqs': 512, 'max_num_batched_tokens': 4096, 'kv_cache_dtype': 'fp8', 'quantization': 'fp8', "
        "'enable_prefix_caching': False}"
    )
    found = row(log("0.26.0", eager=True, arguments=arguments))
    assert (found["maxNumSeqs"], found["maxNumBatchedTokens"]) == (512, 4096)
    assert (found["kvCacheDtype"], found["quantization"]) == ("fp8", "fp8")
    assert found["args"] == {"enable_prefix_caching": False, "enforce_eager": True}


@pytest.mark.parametrize(
    ("sentence", "outcome"),
    [
        ("ValueError: To serve at least one request with the model's max seq len (8192), (1.25 GiB KV cache is needed, "
         "which is larger than the available KV cache memory (0.81 GiB).", "fail-kv-too-small"),
        ("ValueError: No available memory for the cache blocks. Try increasing", "fail-kv-too-small"),
        ("ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (880)", "fail-mamba-blocks"),
        ("Total number of attention heads (40) must be divisible by tensor parallel size (3).", "fail-shard"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.45 GiB.", "fail-out-of-memory"),
    ],
)  # fmt: skip
def test_how_a_start_failed(sentence: str, outcome: str) -> None:
    assert row(log("0.29.0", sentence))["outcome"] == outcome


def test_a_row_with_flags_that_are_not_known_does_not_count() -> None:
    assert row(log("0.29.0"))["tier"] == "core"
    assert row(log("0.29.0", arguments=None))["tier"] == "wide"
    noted = row(log("0.29.0"), note="another process held 2 GiB")
    assert (noted["tier"], noted["note"]) == ("wide", "another process held 2 GiB")


@pytest.mark.parametrize("lines", [[], ["INFO Initializing a V0 LLM engine (v0.7.3) with config: model='x'"]])
def test_another_log_is_rejected(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="no line"):
        row(lines)


def test_a_version_of_a_build_is_that_of_its_release() -> None:
    assert row(log("0.26.1.dev3+gabc"))["vllm"] == "0.26.1"


def test_the_file_is_written_as_it_is() -> None:
    text = Path(MEASURED).read_text(encoding="utf-8")
    assert written(json.loads(text)) == text
