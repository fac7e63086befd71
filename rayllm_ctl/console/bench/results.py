"""The results of load tests as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.console.bench.conditions import condition_rows
from rayllm_ctl.console.bench.service import rows_by_load, service_problems, service_rows
from rayllm_ctl.console.rows import labelled
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.bench.load import Results
from rayllm_ctl.model.kube.quantities import format_duration

NAMES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "end to end"}
_COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")
_BAR = 40
_SENT = 10
"""Requests of a load that is long enough for its rate."""

_COUNTED = {
    "usage": "as the server counts",
    "tokenizer": "as the tokenizer counts",
    "mixed": "some as the server counts, some as the tokenizer does",
    "none": "the server does not report token counts: use --tokenizer to count them",
}


def result_lines(results: Results, style: Printer) -> Iterator[str]:
    """All of the results: one in full, several as a table."""
    yield f"{style.paint(results.target, 'bold')}: {', '.join(results.models)}"
    if len(results.runs) == 1:
        yield from _one(results.runs[0])
    else:
        yield from labelled(list(condition_rows(results.runs[0])))
        yield ""
        yield from _table(results.runs)
        yield from labelled(list(rows_by_load([(load_in_words(run["load"]), run) for run in results.runs])))
    yield from _problems_of_all(results, style)
    if results.searched:
        yield ""
        yield from _found(results, style)


def remark_lines(results: Results, style: Printer) -> Iterator[str]:
    """Failures, doubts about the figures, and what a search has found."""
    yield from _problems_of_all(results, style)
    if results.searched:
        yield from _found(results, style)


def _problems_of_all(results: Results, style: Printer) -> Iterator[str]:
    for run in results.runs:
        yield from _problems(run, style, f"{load_in_words(run['load'])}: " if len(results.runs) > 1 else "")
    for problem in service_problems(results.runs):
        yield f"{style.symbol('warning')} {problem}"


def _one(run: Mapping[str, Any]) -> Iterator[str]:
    requests, rate, tokens = run["requests"], run["throughput"], run["tokens"]
    failed = f", {requests['failed']:,} failed" if requests["failed"] else ""
    answered = f"{requests['succeeded']:,} answered{failed} in {run['durationSeconds']:.1f} s"
    rows = [
        ("load", load_in_words(run["load"])),
        *condition_rows(run),
        ("requests", f"{answered}: {number(rate['requestsPerSecond'])}/s" if requests["total"] else "none"),
    ]
    if tokens["countedBy"] not in (None, "none"):
        rows.append(
            (
                "tokens",
                f"{number(rate['outputTokensPerSecond'])} output/s, {number(rate['inputTokensPerSecond'])} input/s, "
                f"{_COUNTED[tokens['countedBy']]}",
            )
        )
    if "goodput" in run and requests["total"]:
        rows.append(("goodput", _goodput(run["goodput"])))
    yield from labelled([*rows, *service_rows(run)])
    if any(run["latencySeconds"].values()):
        yield ""
        yield from _latencies(run["latencySeconds"])
    if run["histogram"]:
        yield ""
        yield "  requests by time, end to end"
        most = max(bar["count"] for bar in run["histogram"])
        for bar in run["histogram"]:
            width = round(_BAR * bar["count"] / most)
            yield f"  {seconds(bar['upToSeconds']):>11} {'■' * width} {bar['count']:,}".rstrip()


def _latencies(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"  {'':<11}" + "".join(f"{name:>10}" for name in _COLUMNS)
    for name, label in NAMES.items():
        values = (seconds(found[name][column]) for column in _COLUMNS) if found[name] else ("-" for _ in _COLUMNS)
        yield f"  {label:<11}" + "".join(f"{value:>10}" for value in values)


def _problems(run: Mapping[str, Any], style: Printer, where: str) -> Iterator[str]:
    for kind, count in run["errors"].items():
        yield f"{style.symbol('error')} {where}{count:,} × {kind}: {run['errorMessages'][kind]}"
    if run["interrupted"]:
        left = run["requests"]["unfinished"]
        yield f"{style.symbol('warning')} {where}interrupted; {left:,} requests in flight are not counted"
    if run["generator"]["saturated"]:
        used, late = run["generator"]["cpuShare"], run["generator"]["lateSeconds"]
        delay = f", and is late by {seconds(late['p99'])} at the 99th percentile" if late else ""
        yield (
            f"{style.symbol('warning')} {where}this machine is too slow for the load, so the times are not the "
            f"server's alone: the generator uses {used:.0%} of a core{delay}"
        )
    if run["tokens"]["countedBy"] == "none":
        yield f"{style.symbol('warning')} {where}{_COUNTED['none']}"


def _table(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    head = ("load", "requests/s", "tokens/s", "TTFT p50", "p99", "TPOT p50", "p99", "end to end p50", "p99", "failed")
    rows = [head, *(_row(run) for run in runs)]
    if all("goodput" in run for run in runs):
        shares = ("good", *(share_in_words(run) for run in runs))
        rows = [(*row, share) for row, share in zip(rows, shares, strict=True)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield "  " + "  ".join(cells).rstrip()


def _row(run: Mapping[str, Any]) -> tuple[str, ...]:
    latency, rate = run["latencySeconds"], run["throughput"]
    times = [
        seconds(latency[name][percentile]) if latency[name] else "-"
        for name in ("ttft", "tpot", "e2e")
        for percentile in ("p50", "p99")
    ]
    speed = (number(rate["requestsPerSecond"]), number(rate["outputTokensPerSecond"]))
    return (load_in_words(run["load"]), *speed, *times, f"{run['requests']['failed']:,}")


def _found(results: Results, style: Printer) -> Iterator[str]:
    limits = limits_in_words(results.runs[0]["goodput"]["objective"])
    last, answered = results.runs[-1], any(run["requests"]["succeeded"] for run in results.runs)
    if not last["requests"]["total"] and not last["interrupted"]:
        rate, duration = last["load"]["rate"], last["load"]["durationSeconds"]
        yield (
            f"{style.symbol('warning')} the search ended at {number(rate)} requests/s, where no request was due within "
            f"{seconds(duration)}: --duration {math.ceil(_SENT / rate)}s sends about {_SENT}"
        )
    if results.highest_rate is None:
        reason = f"no tested rate meets {limits}" if answered else "no request was answered at any tested rate"
        yield f"{style.symbol('error')} {reason}"
    else:
        yield f"{style.symbol('ok')} {number(results.highest_rate)} requests/s is the highest rate that meets {limits}"


def share_in_words(run: Mapping[str, Any]) -> str:
    """Which share of the requests is good; "-" if none was sent."""
    return f"{run['goodput']['share']:.0%}" if run["requests"]["total"] else "-"


def load_in_words(load: Mapping[str, Any]) -> str:
    """A load in a few words."""
    if "rate" in load:
        text = f"{number(load['rate'])} requests/s"
        if load["arrivals"] != "poisson":
            text += f", {load['arrivals']}" + (f" of {load['burst']}" if load["arrivals"] == "burst" else "")
        return text
    return f"{load['concurrency']} in flight"


def _goodput(found: Mapping[str, Any]) -> str:
    verdict = "enough" if found["met"] else "too few"
    return (
        f"{found['requests']:,} requests ({found['share']:.1%}, {verdict}) meet {limits_in_words(found['objective'])}: "
        f"{number(found['requestsPerSecond'])}/s"
    )


def limits_in_words(objective: Mapping[str, float]) -> str:
    """The limits of latency that a share of the requests has to meet."""
    times = [
        f"{NAMES[name.removesuffix('Seconds')]} {seconds(value)}"
        for name, value in objective.items()
        if name != "share"
    ]
    return f"{', '.join(times)} for {objective['share']:.0%}"


def seconds(value: float) -> str:
    """A time in the unit that suits it, with three digits."""
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    if value < 1:
        return f"{value * 1e3:.3g} ms" if value < 0.1 else f"{value * 1e3:.0f} ms"
    return f"{value:.2f} s" if value < 100 else format_duration(value)


def number(value: float) -> str:
    """A rate, with three digits or as a whole number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
