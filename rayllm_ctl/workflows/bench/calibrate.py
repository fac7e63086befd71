"""Store the ratio of measured to planned speed of a service."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from rayllm_ctl.catalog.calibrations import merge_calibrations, read_calibrations
from rayllm_ctl.errors import UsageError, UserError, not_written
from rayllm_ctl.files import file_to_replace, replace_file
from rayllm_ctl.model.bench.load import Results
from rayllm_ctl.model.plan.calibration import Calibration
from rayllm_ctl.model.text.json_form import to_json
from rayllm_ctl.model.text.yaml_text import dump
from rayllm_ctl.workflows.bench.flags import Flags

LEAST_REQUESTS = 50
LEAST_ROUNDS = 10
"""Requests that a measurement has to have, at all and for each one in flight: the first and the last round are not like
the rest."""

_ANOTHER = "--calibrate calibration.yaml"

_FIGURES = ("requestsPerSecond", "ttftSeconds", "tpotSeconds")


def check_calibration(flags: Flags) -> None:
    """Raise UsageError for a load that cannot calibrate a plan, or a file that is not a calibration."""
    path = flags.calibrate
    assert path is not None
    if flags.url is not None:
        raise UsageError("--calibrate is for NAME: the plan of a server at --url is not known", hint="remove it")
    if flags.rate or flags.find_max or len(flags.concurrency or ()) > 1:
        raise UsageError(
            "--calibrate takes one load with a number of requests in flight", hint="--concurrency 16 --requests 400"
        )
    if flags.prefix_tokens:
        raise UsageError(
            "--calibrate and --prefix-tokens cannot be combined: the plan computes every prompt as a whole",
            hint="leave out --prefix-tokens",
        )
    if not flags.stream:
        raise UsageError("--calibrate and --no-stream cannot be combined: TTFT is not measured", hint="--stream")
    if file_to_replace(path, _ANOTHER).exists():
        read_calibrations(path)
    elif not path.absolute().parent.is_dir():
        raise UsageError(f"--calibrate {path}: there is no directory {path.absolute().parent}")


def store(path: Path, results: Results) -> Calibration:
    """Write the ratio of measured to planned figures to the file. UserError, with all reasons, for an inconclusive
    result."""
    (result,) = results.runs
    problems = list(_problems(result))
    if problems:
        raise UserError(
            f"nothing was stored in {path}: {'; '.join(problems)}",
            hint=_hint(result) if _too_few(result) else (),
        )
    calibration = _calibration(result)
    write_calibrations(path, merge_calibrations(read_calibrations(path) if path.exists() else (), calibration))
    return calibration


def _problems(result: Mapping[str, Any]) -> Iterator[str]:
    if result["interrupted"]:
        yield "the load test was interrupted"
    if failed := result["requests"]["failed"]:
        yield f"{failed:,} request{'' if failed == 1 else 's'} failed"
    if result["generator"]["saturated"]:
        yield "the generator was saturated, so the figures are not the service's alone"
    if _too_few(result):
        yield f"{result['requests']['succeeded']:,} requests are too few for {result['load']['concurrency']} in flight"
    if result["predicted"] is None:
        yield f"there is no prediction: {result['notPredicted']}"
    elif missing := [name for name in _FIGURES if not (result["predicted"][name] or {}).get("ratio")]:
        yield f"{missing[0]} was not measured"


def _least(result: Mapping[str, Any]) -> int:
    return max(LEAST_REQUESTS, LEAST_ROUNDS * int(result["load"]["concurrency"]))


def _too_few(result: Mapping[str, Any]) -> bool:
    return bool(result["requests"]["succeeded"] < _least(result))


def _hint(result: Mapping[str, Any]) -> str:
    return f"--concurrency {result['load']['concurrency']} --requests {_least(result)}"


def _calibration(result: Mapping[str, Any]) -> Calibration:
    predicted, plan = result["predicted"], result["predicted"]["plan"]
    throughput, ttft, tpot = (round(predicted[name]["ratio"], 4) for name in _FIGURES)
    memory = predicted.get("kvCacheBytes")
    return Calibration(
        model=plan["model"],
        gpu=plan["gpu"],
        tensor=plan["tensor"],
        pipeline=plan["pipeline"],
        vllm_version=plan["vllmVersion"],
        throughput=throughput,
        ttft=ttft,
        tpot=tpot,
        date=date.today().isoformat(),
        in_flight=round(result["load"]["concurrency"] / plan["replicas"], 2),
        input_tokens=plan["inputTokens"],
        output_tokens=plan["outputTokens"],
        requests=result["requests"]["succeeded"],
        quantization=plan.get("quantization"),
        kv_cache_dtype=plan.get("kvCacheDtype"),
        kv_cache=round(memory["ratio"], 4) if memory else None,
        kv_cache_bytes=int(memory["measured"]) if memory else None,
        planned_kv_cache_bytes=int(memory["predicted"]) if memory else None,
    )


def write_calibrations(path: Path, calibrations: Sequence[Calibration]) -> None:
    """Write a file as a whole. UserError if that cannot be done."""
    data = {"calibrations": to_json(calibrations)}
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n" if path.suffix == ".json" else dump(data)
    target = file_to_replace(path, _ANOTHER)
    try:
        replace_file(target, text)
    except OSError as error:
        raise not_written(path, error) from error
