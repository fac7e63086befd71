"""Plots of load tests, with lines that differ in shade, dash and mark, and text large enough for a phone."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from rayllm_ctl.console.bench.results import NAMES, load_in_words
from rayllm_ctl.console.bench.service_plot import drawing, has_service
from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass

Format = Literal["png", "svg"]
Results = Sequence[Mapping[str, Any]]

_STYLES = (("-", "o", "0"), ("--", "s", "0.25"), (":", "^", "0.0"), ("-.", "D", "0.4"), ("-", "x", "0.55"))
"""Dashes, marks and greys of the lines."""
_SIZE = (6.4, 4.2)
_RC: Any = {
    "font.size": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.88",
    "svg.fonttype": "path",
    "svg.hashsalt": "rayllm-ctl",
    "figure.dpi": 150,
}


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
    if any(_known(run, "ttft") for run in results):
        drawn.append(("ttft", "Requests by time to first token", _cumulative("ttft")))
    if len(results) > 1:
        drawn.append(("loads", "Time and throughput by load", _loads))
    drawn.append(("timeline", "Finished requests per second", _timeline))
    for number, run in enumerate(results, 1):
        if has_service(run):
            several = len(results) > 1
            title = "Service during the load" + (f", {load_in_words(run['load'])}" if several else "")
            drawn.append((f"service-{number}" if several else "service", title, drawing(run)))
    return [Plot(name, title, images(title, forms, partial(_on, draw, results))) for name, title, draw in drawn]


def _on(draw: Callable[[Any, Results], None], results: Results, axes: Any) -> None:
    draw(axes, results)


def images(
    title: str, forms: Sequence[Format], draw: Callable[[Any], None], size: tuple[float, float] = _SIZE
) -> dict[Format, bytes]:
    """What `draw` draws into axes. size: in inches. Raises UsageError if matplotlib is missing."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError("plots need the package matplotlib", hint="pip install matplotlib") from None
    found = {}
    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        # At the left edge of the figure: beside long labels of bars a title of the axes is cut off.
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        draw(axes)
        for form in forms:
            image = io.BytesIO()
            figure.savefig(image, format=form, metadata={"Date": None} if form == "svg" else None)
            found[form] = image.getvalue()
    return found


def _cumulative(name: str) -> Callable[[Any, Results], None]:
    def draw(axes: Any, results: Results) -> None:
        for (line, mark, grey), run in zip(_styles(len(results)), results, strict=True):
            values = sorted(_known(run, name))
            if not values:
                continue
            shares = [100 * (place + 1) / len(values) for place in range(len(values))]
            every = max(1, len(values) // 8)
            axes.plot(values, shares, line, marker=mark, color=grey, markevery=every, label=load_in_words(run["load"]))
        axes.set_xlabel(f"{NAMES[name]}, seconds")
        axes.set_ylabel("requests that took no longer, %")
        axes.set_xlim(left=0)
        axes.set_ylim(0, 101)
        if len(results) > 1:
            axes.legend(loc="lower right", frameon=False)

    return draw


def _loads(axes: Any, results: Results) -> None:
    measured = [run for run in results if run["latencySeconds"]["e2e"]]
    rates = [run["throughput"]["requestsPerSecond"] for run in measured]
    for (line, mark, grey), percentile in zip(_styles(2), ("p50", "p99"), strict=True):
        times = [run["latencySeconds"]["e2e"][percentile] for run in measured]
        axes.plot(rates, times, line, marker=mark, color=grey, label=percentile)
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
    for (line, mark, grey), run in zip(_styles(len(results)), results, strict=True):
        seconds = run["timeline"][:-1] or run["timeline"]  # the last one is not whole
        answered = [second["succeeded"] for second in seconds]
        label = load_in_words(run["load"]) if len(results) > 1 else "answered"
        every = max(1, len(answered) // 10)
        axes.plot(range(len(answered)), answered, line, marker=mark, markevery=every, color=grey, label=label)
        failed = [(place, second["failed"]) for place, second in enumerate(seconds) if second["failed"]]
        if failed:
            places, counts = zip(*failed, strict=True)
            axes.plot(
                places, counts, "X", color="0", markersize=9, label=f"failed{'' if len(results) == 1 else f', {label}'}"
            )
    axes.set_xlabel("seconds since the first request")
    axes.set_ylabel("requests per second")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)


def _styles(count: int) -> list[tuple[str, str, str]]:
    return [_STYLES[place % len(_STYLES)] for place in range(count)]


def _known(run: Mapping[str, Any], name: str) -> list[float]:
    return [value for value in run["samples"][name] if value is not None]
