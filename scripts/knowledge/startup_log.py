"""Read a start-up log of vLLM into a row of tests/data/measured.json.

    python -m scripts.knowledge.startup_log vllm.log --gpu H100-80GB --source "github OWNER/REPO@COMMIT PATH"

It prints the row; --add appends it to the file. The log does not say on which GPU it ran, nor who published it. A row
is of tier "wide" if the log lacks the line of arguments ("non-default args"), because a flag may then be unknown; add
--note with what is not certain. Logs of engine V0 (before 0.8) have other sentences and are not read.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rayllm_ctl.catalog.gpus import find_gpu
from rayllm_ctl.errors import UserError

MEASURED = Path(__file__).resolve().parents[2] / "tests" / "data" / "measured.json"

_ENGINE = re.compile(r"Initializing a V1 LLM engine \(v([^)]+)\) with config: (.*)")
_ARGUMENTS = re.compile(r"non-default args: (\{.*\})")
_WEIGHTS = re.compile(r"Model loading took ([\d.]+) GiB")
_CACHE = re.compile(r"Available KV cache memory: (-?[\d.]+) GiB")
_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x")

_OUTCOMES = (
    (re.compile(r"is needed, which is larger than the available KV cache"), "fail-kv-too-small"),
    (re.compile(r"No available memory for the cache blocks"), "fail-kv-too-small"),
    (re.compile(r"exceeds available Mamba cache"), "fail-mamba-blocks"),
    (re.compile(r"must be divisible by tensor parallel size|is not divisible by"), "fail-shard"),
    (re.compile(r"OutOfMemoryError|CUDA out of memory|HIP out of memory"), "fail-out-of-memory"),
)
"""How a start ends that fails, by the sentences of v1/core/kv_cache_utils.py (kv_cache_planning.py since 0.33),
config/compilation.py, config/model.py and torch."""

_FLAGS = {
    "gpu_memory_utilization": "utilization",
    "max_num_seqs": "maxNumSeqs",
    "max_num_batched_tokens": "maxNumBatchedTokens",
    "kv_cache_dtype": "kvCacheDtype",
}
"""Arguments that have a field of their own in a row."""

_SETTLED = {"model", "model_tag", "served_model_name", "tensor_parallel_size", "pipeline_parallel_size", "dtype",
            "max_model_len", "quantization", "host", "port", "api_key", "seed", "download_dir", "load_format",
            "disable_log_requests", "disable_log_stats", "trust_remote_code"}  # fmt: skip
"""Arguments that the engine's own line states, or that take no memory of a GPU."""

_FIGURES = ("weightsGiB", "kvGiB", "tokens", "concurrency")


def row_of(lines: Iterable[str], gpu: str, source: str, note: str = "") -> dict[str, Any]:
    """The row that a log stands for. Raises ValueError if it is not a start-up log of vLLM's engine V1."""
    text = "\n".join(lines)
    engine = _ENGINE.search(text)
    if engine is None:
        raise ValueError('the log has no line "Initializing a V1 LLM engine"')
    stated = _ARGUMENTS.search(text)
    arguments = dict(ast.literal_eval(stated[1])) if stated else {}
    row: dict[str, Any] = {
        "model": _field(engine[2], "model"),
        "gpu": gpu,
        "tensor": int(_field(engine[2], "tensor_parallel_size")),
        "pipeline": int(_field(engine[2], "pipeline_parallel_size")),
        "vllm": re.match(r"[\d.]*\d", engine[1])[0],  # type: ignore[index]
        "maxModelLen": int(_field(engine[2], "max_seq_len")),
        "dtype": _field(engine[2], "dtype").removeprefix("torch."),
    }
    if arguments.get("quantization"):
        row["quantization"] = arguments["quantization"]
    row |= {field: arguments[name] for name, field in _FLAGS.items() if arguments.get(name) not in (None, "auto")}
    others = {name: value for name, value in arguments.items() if name not in _FLAGS and name not in _SETTLED}
    if _field(engine[2], "enforce_eager") == "True":
        others["enforce_eager"] = True
    row |= {"args": others} if others else {}
    row["outcome"] = next((outcome for sentence, outcome in _OUTCOMES if sentence.search(text)), "ok")
    row |= _figures(text)
    row["judged"] = [name for name in _FIGURES if name in row]
    row["tier"] = "core" if stated and not note else "wide"
    row |= {"note": note} if note else {}
    return {**row, "source": source}


def _figures(text: str) -> dict[str, float | int]:
    """What the ranks printed: the heaviest weights, and the smallest cache, which all of them then use."""
    found: dict[str, float | int] = {}
    if weights := _WEIGHTS.findall(text):
        found["weightsGiB"] = max(float(figure) for figure in weights)
    if caches := _CACHE.findall(text):
        found["kvGiB"] = min(float(figure) for figure in caches)
    if tokens := _TOKENS.findall(text):
        found["tokens"] = min(int(figure.replace(",", "")) for figure in tokens)
    if concurrency := _CONCURRENCY.findall(text):
        found["concurrency"] = min(float(figure) for figure in concurrency)
    return found


def _field(config: str, name: str) -> str:
    """A field of the engine's line, `name=value` between commas."""
    found = re.search(rf"(?:^|, ){name}=('[^']*'|[^,]+)", config)
    if found is None:
        raise ValueError(f"the engine's line does not state {name}")
    return found[1].strip("'")


def written(rows: Iterable[Mapping[str, Any]]) -> str:
    """The text of measured.json: one line for each row."""
    return "[\n" + ",\n".join(f" {json.dumps(row, ensure_ascii=False)}" for row in rows) + "\n]\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("--gpu", required=True, help="the catalog's name, such as H100-80GB")
    parser.add_argument("--source", required=True, help="where others can look the log up")
    parser.add_argument("--note", default="", help="what is not certain; the row then does not count in the figures")
    parser.add_argument("--add", action="store_true", help=f"append the row to {MEASURED.name}")
    options = parser.parse_args()
    try:
        gpu = find_gpu(options.gpu).name
        row = row_of(options.log.read_text(encoding="utf-8").splitlines(), gpu, options.source, options.note)
    except (UserError, ValueError) as error:
        raise SystemExit(f"{options.log}: {error}") from None
    if options.add:
        rows = json.loads(MEASURED.read_text(encoding="utf-8"))
        MEASURED.write_text(written([*rows, row]), encoding="utf-8")
    sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
