"""Plots of load tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rayllm_ctl.console.bench.results import NAMES, load_in_words
from rayllm_ctl.console.bench.service_plot import drawing, has_service
from rayllm_ctl.console.drawing import BLUE, ORANGE, Format, images, line_styles
from rayllm_ctl.frozen import dataclass

Results = Sequence[Mapping[str, Any]]

_MOST_LINES = 4
"""Loads whose names fit inside a plot; those of more are below it."""

_WITHOUT_SAMPLES = ("p50", "p90", "p95", "p99", "max")
"""What is known of the gaps between chunks in results of older releases."""


@dataclass(frozen=True)
class Plot:
    """A plot as an image in each format. name: for files."""

    name: str
    title: str
    images: Mapping[Format, bytes]


def plots(results: Results, forms: Sequence[Format]) -> list[Plot]:
    """The plots that the results have. Raises UsageError if matplotlib is missing."""
    drawn: list[tuple[str, str, Callable[[Any, Results], None]]] = []
    if any(run["samples"]["e2e"] for run in results):
        drawn.append(("end-to-end", "Requests by time, end to end", _cumulative("e2e")))
    for name, title in (("ttft", "Requests by time to first token"), ("tpot", "Requests by time per output token")):
        if any(_known(run, name) for run in results):
            drawn.append((name, title, _cumulative(name)))
    if any(run["latencySeconds"]["itl"] for run in results):
        drawn.append(("itl", "Chunks by inter-token latency", _gaps))
    if len(results) > 1:
        drawn.append(("loads", "Time and throughput by load", _loads))
    drawn.append(("timeline", "Finished requests per second", _timeline))
    for number, run in enumerate(results, 1):
        if has_service(run):
            several = len(results) > 1
            title = "Service during the load" + (f", {load_in_words(run['load'])}" if several else "")
            drawn.append((f"service-{number}" if several else "service", title, drawing(run)))
    return [Plot(name, title, images(title, forms, partial(_on, draw, results))) for name, title, draw in drawn]


def _on(draw: Callable[[Any, Results], None], results: Results, figure: Any) -> None:
    draw(figure.add_subplot(), results)


def _cumulative(name: str) -> Callable[[Any, Results], None]:
    def draw(axes: Any, results: Results) -> None:
        curves = []
        for run in results:
            values = sorted(_known(run, name))
            curves.append([(value, 100 * (place + 1) / len(values)) for place, value in enumerate(values)])
        _curves(axes, results, curves)
        axes.set_xlabel(f"{NAMES[name]}, {_unit(axes, curves)}")
        axes.set_ylabel("requests that took no longer, %")

    return draw


def _gaps(axes: Any, results: Results) -> None:
    curves = []
    for run in results:
        values, known = sorted(run["samples"].get("itl", ())), run["latencySeconds"]["itl"]
        if values:
            curves.append([(value, 100 * (place + 1) / len(values)) for place, value in enumerate(values)])
        else:
            percents = (50, 90, 95, 99, 100)
            curves.append(
                [(known[name], at) for name, at in zip(_WITHOUT_SAMPLES, percents, strict=True)] if known else []
            )
    _curves(axes, results, curves)
    axes.set_xlabel(f"{NAMES['itl']}, {_unit(axes, curves)}")
    axes.set_ylabel("gaps that were no longer, %")


def _curves(axes: Any, results: Results, curves: Sequence[Sequence[tuple[float, float]]]) -> None:
    """Cumulative distributions: pairs of seconds and percent for each load."""
    for style, run, curve in zip(line_styles(len(results)), results, curves, strict=True):
        if curve:
            values, shares = zip(*curve, strict=True)
            axes.plot(values, shares, markevery=max(1, len(curve) // 8), label=load_in_words(run["load"]), **style)
    axes.set_xlim(left=0)
    axes.set_ylim(0, 102)
    if len(results) > 1:
        _legend(axes, len(results))


def _unit(axes: Any, curves: Sequence[Sequence[tuple[float, float]]]) -> str:
    """The unit of the horizontal axis, whose numbers are written in it."""
    if max((value for curve in curves for value, _ in curve), default=1.0) >= 1:
        return "seconds"
    axes.xaxis.set_major_formatter(lambda value, _: f"{1e3 * value:.4g}")
    return "milliseconds"


def _loads(axes: Any, results: Results) -> None:
    # A search does not test rates in their order.
    measured = sorted(
        (run for run in results if run["latencySeconds"]["e2e"]), key=lambda run: run["throughput"]["requestsPerSecond"]
    )
    rates = [run["throughput"]["requestsPerSecond"] for run in measured]
    for style, percentile in zip(line_styles(2), ("p50", "p99"), strict=True):
        axes.plot(rates, [run["latencySeconds"]["e2e"][percentile] for run in measured], label=percentile, **style)
    if len(measured) <= _MOST_LINES:
        for rate, run in zip(rates, measured, strict=True):
            axes.annotate(
                load_in_words(run["load"]), (rate, run["latencySeconds"]["e2e"]["p99"]), textcoords="offset points",
                xytext=(0, 7), ha="center", fontsize=10, bbox={"color": "1", "pad": 0.5},
            )  # fmt: skip
    axes.set_xlabel("requests answered per second")
    axes.set_ylabel("end to end, seconds")
    axes.margins(x=0.12)
    axes.set_ylim(0, 1.2 * axes.get_ylim()[1])  # the names of the loads are above their marks
    axes.legend(frameon=False)


def _timeline(axes: Any, results: Results) -> None:
    several = len(results) > 1
    for style, run in zip(
        line_styles(len(results)) if several else [{"color": BLUE, "marker": "o"}], results, strict=True
    ):
        seconds = run["timeline"][:-1] or run["timeline"]  # the last one is not whole
        answered = [second["succeeded"] for second in seconds]
        label = load_in_words(run["load"]) if several else "answered"
        axes.plot(range(len(answered)), answered, markevery=max(1, len(answered) // 10), label=label, **style)
        failed = [(place, second["failed"]) for place, second in enumerate(seconds) if second["failed"]]
        if failed:
            places, counts = zip(*failed, strict=True)
            color = style["color"] if several else ORANGE
            axes.plot(places, counts, "X", color=color, markersize=9, label=f"failed{f', {label}' if several else ''}")
    axes.set_xlabel("seconds since the first request")
    axes.locator_params(axis="x", integer=True)
    axes.set_ylabel("requests per second")
    axes.set_ylim(bottom=0)
    _legend(axes, len(results))


def _legend(axes: Any, lines: int) -> None:
    if lines <= _MOST_LINES:
        axes.legend(loc="best", frameon=False, fontsize=11)
    else:
        axes.figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=10)


def _known(run: Mapping[str, Any], name: str) -> list[float]:
    return [value for value in run["samples"][name] if value is not None]
