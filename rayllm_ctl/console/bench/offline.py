"""The results of an engine without a server as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from rayllm_ctl.console.bench.results import number, seconds
from rayllm_ctl.console.rows import labelled
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.bench.offline import OfflineResults


def offline_lines(results: OfflineResults, style: Printer) -> Iterator[str]:
    """The measured figures, and notes on missing ones."""
    yield f"{style.paint(results.model, 'bold')} on {results.gpus}, without a server"
    load = results.load
    rows = [("load", f"prompts of {load.input_tokens:,} tokens, answers of {load.output_tokens:,}")]
    versions = f"rayllm-ctl {results.versions['rayllm-ctl']}, vLLM {results.versions['vllm']}"
    rows.append(("measured", f"{results.started_at:%Y-%m-%d %H:%M} UTC, {versions}"))
    rate, tokens = results.requests_per_second, results.output_tokens_per_second
    if rate is not None and tokens is not None and results.seconds is not None:
        rows.append(
            (
                "throughput",
                f"{number(rate)} requests/s, {number(tokens)} output tokens/s "
                f"({load.requests:,} requests in {seconds(results.seconds)})",
            )
        )
    if results.latency is not None:
        times = asdict(results.latency)
        figures = ", ".join(f"{name} {seconds(value)}" for name, value in times.items())
        rows.append(("latency", f"{figures} for a batch of {load.batch:,}"))
    yield from labelled(rows)
    if results.interrupted:
        yield f"{style.symbol('warning')} interrupted"
    elif results.problem:
        yield f"{style.symbol('error')} the latency was not measured: {results.problem}"
