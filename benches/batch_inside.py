"""The part of bench_batch that runs with Ray: both sides, and what was measured.

batch_inside.py ROWS            all of it
batch_inside.py driver FILE     run the job of a settings file in this process, and say how much memory that took
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from batch_stages import READY, ByHand, OfBatchJob
from ray.data.llm import build_processor, vLLMEngineProcessorConfig

from rayllm_ctl.serving.batch import driver
from rayllm_ctl.serving.batch.inference import engine

ROOT = Path.home() / "bench"
PAIRS = 2
LEAST_RATIO = 0.97
FEW, MANY = 1_000, 100_000
MOST_GROWTH = 1.15

MODEL = "/mnt/tiny"
ENGINE = {"max_model_len": 512, "max_num_seqs": 32, "enforce_eager": True, "seed": 0}
BATCH_SIZE, CONCURRENT_BATCHES = 32, 4
PLACEMENT = {"bundle_per_worker": {"CPU": 1}, "strategy": "PACK"}
SAMPLING = {"max_tokens": 16, "ignore_eos": True, "temperature": 0.0}
SYSTEM = "You are a helpful assistant."
PART_ROWS = 250


def say(text: str) -> None:
    sys.stdout.write(f"bench: {text}\n")
    sys.stdout.flush()


def write_rows(count: int) -> Path:
    """A JSONL file."""
    path = ROOT / f"{count}.jsonl"
    lines = (json.dumps({"id": i, "text": f"What does Ray do with row {i} of a file?"}) for i in range(count))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def batch_job(given: Path, to: Path) -> None:
    """Our driver."""
    settings = ROOT / "settings.json"
    settings.write_text(json.dumps({
        "name": "bench",
        "job": {"partRows": PART_ROWS},
        "input": {"format": "jsonl", "paths": [str(given)]},
        "output": {"format": "jsonl", "path": str(to)},
        "prompt": {"template": "{{ text }}", "system": SYSTEM, "chat": True},
        "sampling": SAMPLING,
        "engine": {
            "model": MODEL,
            "kwargs": ENGINE,
            "batchSize": BATCH_SIZE,
            "maxConcurrentBatches": CONCURRENT_BATCHES,
            "placementGroup": PLACEMENT,
        },
    }))  # fmt: skip
    if code := driver.main(str(settings)):
        raise SystemExit(f"the batch job ended with {code}")


def by_hand(given: Path, to: Path) -> None:
    """What Ray's documentation shows, with its stages as they are."""
    config = vLLMEngineProcessorConfig(
        model_source=MODEL,
        engine_kwargs=dict(ENGINE),
        batch_size=BATCH_SIZE,
        max_concurrent_batches=CONCURRENT_BATCHES,
        concurrency=1,
        placement_group_config=dict(PLACEMENT),
    )

    def ask(row: dict[str, Any]) -> dict[str, Any]:
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": row["text"]}]
        return {"messages": messages, "sampling_params": dict(SAMPLING), **row}

    def keep(row: dict[str, Any]) -> dict[str, Any]:
        return {"id": row["id"], "text": row["text"], "answer": row["generated_text"]}

    processor = build_processor(config, preprocess=ask, postprocess=keep)
    stage = processor.stages["vLLMEngineStage"]
    processor.stages["vLLMEngineStage"] = stage.model_copy(update={"fn": ByHand})
    rows = sum(1 for _ in given.open())
    blocks = -(-rows // PART_ROWS)
    processor(ray.data.read_json(str(given), lines=True).repartition(blocks)).write_json(str(to))


SIDES: dict[str, Callable[[Path, Path], None]] = {"by hand": by_hand, "batch job": batch_job}


def rate(side: str, given: Path, rows: int, number: int) -> float:
    """Rows per second of a run."""
    READY.unlink(missing_ok=True)
    to = ROOT / f"{side.replace(' ', '-')}-{number}"
    SIDES[side](given, to)
    end = time.time()
    answers = [json.loads(line) for file in to.glob("*.json*") for line in file.open()]
    if sorted(answer["id"] for answer in answers) != list(range(rows)) or not all(a["answer"] for a in answers):
        raise SystemExit(f"{side}: {len(answers)} answers to {rows} rows, or some are empty")
    return rows / (end - float(READY.read_text()))


def throughput(rows: int) -> float:
    """The batch job's rows per second as a part of the pipeline's by hand, at the median of pairs."""
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, object_store_memory=500 * 2**20)
    ray.data.DataContext.get_current().enable_progress_bars = False
    engine.EngineStage = OfBatchJob  # type: ignore[misc]
    given = write_rows(rows)
    rates: dict[str, list[float]] = {side: [] for side in SIDES}
    for number in range(PAIRS + 1):
        order = list(SIDES) if number % 2 else list(reversed(SIDES))
        for side in order:
            found = rate(side, given, rows, number)
            if number:
                rates[side].append(found)
            say(f"{'rows' if number else 'warm-up'} {side:<12} {found:7.1f} /s")
    ray.shutdown()
    ratio = statistics.median(ours / theirs for theirs, ours in zip(*rates.values(), strict=True))
    say(f"throughput     ratio {ratio:.3f}")
    return ratio


def memory() -> float:
    """The driver's peak with many rows as a multiple of that with few."""
    environment = {**os.environ, "RAYLLM_BATCH_ENGINE_STAGE": "rayllm_standin.batch:StandInStage"}
    environment["RAYLLM_STANDIN_BATCH_SECONDS"] = "0"
    peaks = {}
    for rows in (FEW, MANY):
        settings = ROOT / f"memory-{rows}.json"
        settings.write_text(json.dumps({
            "name": "bench",
            "input": {"format": "jsonl", "paths": [str(write_rows(rows))]},
            "output": {"format": "parquet", "path": str(ROOT / f"memory-{rows}")},
            "prompt": {"template": "{{ text }}", "chat": False},
            "sampling": {"max_tokens": 16},
            "engine": {"model": MODEL, "kwargs": ENGINE, "placementGroup": PLACEMENT},
        }))  # fmt: skip
        command = [sys.executable, __file__, "driver", str(settings)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        peaks[rows], seconds = map(float, done.stdout.splitlines()[-1].split())
        say(f"driver memory  {peaks[rows] / 2**10:7.1f} MiB at most with {rows} rows, in {seconds:.0f} s")
    return peaks[MANY] / peaks[FEW]


def peak_of_driver(settings: str) -> None:
    """Print the most private memory in KiB that this process had, and the seconds that the job took.

    Blocks in Ray's object store, which are shared memory of a fixed size, are not in it.
    """
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, object_store_memory=500 * 2**20)
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.1):
            status = Path("/proc/self/status").read_text()
            peak = max(peak, int(status.partition("RssAnon:")[2].split()[0]))

    watching = threading.Thread(target=watch)
    watching.start()
    begin = time.monotonic()
    code = driver.main(settings)
    done.set()
    watching.join()
    if code:
        raise SystemExit(f"the batch job ended with {code}")
    sys.stdout.write(f"{peak} {time.monotonic() - begin}\n")


def main(rows: int) -> int:
    ROOT.mkdir()
    growth = memory()
    ratio = throughput(rows)
    good = ratio >= LEAST_RATIO and growth <= MOST_GROWTH
    say(f"limits         ratio >= {LEAST_RATIO:g}, memory <= {MOST_GROWTH:g} times: {'met' if good else 'NOT MET'}")
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1] == "driver":
        peak_of_driver(sys.argv[2])
    else:
        sys.exit(main(int(sys.argv[1])))
