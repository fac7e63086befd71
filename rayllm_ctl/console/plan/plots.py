"""A plan as a picture: the memory of its GPUs as bars, and the speed of a replica by requests in flight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.console.drawing import BLUE, GREEN, GREY, LIGHT, ORANGE, PURPLE, Format, images, line_styles
from rayllm_ctl.console.plan.memory import memory_parts
from rayllm_ctl.console.plan.one_model import verdict_words
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import GIB, gib
from rayllm_ctl.model.plan.plan import Band, CurvePoint, Plan, Throughput
from rayllm_ctl.model.plan.transformers import DevicePlan

_WIDTH, _BAR, _LEGEND, _PANEL = 7.5, 0.6, 0.6, 2.1
"""Inches."""

_FILLS: dict[str, dict[str, str]] = {
    "weights": {"facecolor": BLUE},
    "activations": {"facecolor": "#f0c9a8", "hatch": "\\\\\\\\", "edgecolor": ORANGE},
    "graphs": {"facecolor": "#d9d9d9", "hatch": "xxx", "edgecolor": "0.2"},
    "non-torch": {"facecolor": PURPLE},
    "KV cache": {"facecolor": "#c6e5da", "hatch": "///", "edgecolor": GREEN},
    "copied layers": {"facecolor": "0.25"},
    "margin": {"facecolor": "0.8", "hatch": "...", "edgecolor": GREY},
    "left": {"facecolor": "1", "edgecolor": GREY},
}
_PANELS = (
    ("output_tokens_per_second", "output tokens/s", 1.0),
    ("ttft", "TTFT, s", 1.0),
    ("tpot", "TPOT, ms", 1e3),
)
_LABELLED = 0.09
"""Share of a bar from which on a part has its size inside."""


@dataclass(frozen=True)
class _Bar:
    """The memory of a GPU. parts: bytes by name. kv: the band of the KV cache, if it is one."""

    label: str
    total: float
    parts: Mapping[str, float]
    kv: Band | None = None


def plan_image(plan: Plan, form: Format) -> bytes | None:
    """The picture; None if the plan has no GPU memory. Raises UsageError if matplotlib is missing."""
    bars = [bar for name, one in plan.each.items() for bar in _bars(one, name if plan.models is not None else "")]
    speeds = {name: one.throughput for name, one in plan.each.items() if one.throughput is not None}
    # A replica that holds a single request has a point and no curve.
    curves = {name: speed for name, speed in speeds.items() if len(speed.curve or ()) > 1}
    if not bars:
        return None
    heights = [0.9 + _BAR * len(bars), _LEGEND, *([_PANEL] * len(_PANELS) if curves else ())]

    def draw(figure: Any) -> None:
        grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        _draw_memory(figure.add_subplot(grid[0]), figure.add_subplot(grid[1]), bars)
        if curves:
            _draw_speed(figure, grid, curves)

    return images(_title(plan), (form,), draw, (_WIDTH, 0.8 + sum(heights)))[form]


def _title(plan: Plan) -> str:
    where = ""
    if plan.gpu is not None and plan.parallelism is not None:
        where = f" on {plan.parallelism.gpus_per_replica} × {plan.gpu.name}"
    return f"{plan.model}: {verdict_words(plan)}{where}"


def _bars(plan: Plan, name: str) -> Iterator[_Bar]:
    if plan.memory is not None:
        # A plan that does not fit has no KV cache, or less than none.
        low, typical, high = (max(0.0, end) for end in _ends(plan.memory.kv_cache_bytes))
        yield _Bar(name or "per GPU", plan.memory.total_bytes, memory_parts(plan.memory), Band(low, typical, high))
    for device in plan.transformers.devices if plan.transformers else ():
        if device.device != "cpu":
            label = f"GPU {device.device}"
            yield _Bar(f"{name} {label}".strip(), device.total_bytes, _device_parts(device))


def _device_parts(device: DevicePlan) -> dict[str, float]:
    parts = {
        "weights": device.weights_bytes,
        "activations": device.activation_bytes,
        "non-torch": device.context_bytes,
        "copied layers": device.reserved_bytes,
        "KV cache": device.kv_cache_bytes,
        "margin": device.margin_bytes,
    }
    return {**parts, "left": max(0.0, device.total_bytes - sum(parts.values()))}


def _draw_memory(axes: Any, below: Any, bars: Sequence[_Bar]) -> None:
    shown: dict[str, Any] = {}
    for place, bar in enumerate(bars):
        begin = 0.0
        for name, size in bar.parts.items():
            if size <= 0:
                continue
            wide = size / GIB
            part = axes.barh(place, wide, 0.6, begin, linewidth=0.8, **{"edgecolor": "0.2", **_FILLS[name]})
            shown.setdefault(name, part)
            if size >= _LABELLED * max(bar.total, sum(bar.parts.values())):
                axes.text(
                    begin + wide / 2, place, gib(size), ha="center", va="center", fontsize=10,
                    bbox={"facecolor": "1", "edgecolor": "none", "pad": 1.5},
                )  # fmt: skip
            begin += wide
        total = bar.total / GIB
        axes.plot([total, total], [place - 0.4, place + 0.4], color="0", linewidth=2)
        axes.annotate(f"{gib(bar.total)} GiB", (total, place - 0.4), xytext=(0, 2), textcoords="offset points",
                      ha="right" if begin <= 1.001 * total else "center", va="bottom", fontsize=10)  # fmt: skip
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars])
    axes.set_ylim(len(bars) - 0.5, -0.75)
    axes.set_xlim(left=0)
    axes.set_xlabel("GiB of GPU memory")
    axes.grid(False, axis="y")
    axes.set_axisbelow(True)
    below.set_axis_off()
    names = [_part_name(name, bars) for name in shown]
    below.legend(list(shown.values()), names, loc="center", ncols=3, frameon=False, fontsize=10)


def _part_name(name: str, bars: Sequence[_Bar]) -> str:
    """The name of a part, with its size where there is one bar."""
    if len(bars) > 1:
        return name
    bar = bars[0]
    text = f"{name} {gib(bar.parts[name])}"
    if name == "KV cache" and bar.kv is not None:
        text += f" ({gib(bar.kv.low)}–{gib(bar.kv.high)})"
    return text


def _draw_speed(figure: Any, grid: Any, curves: Mapping[str, Throughput]) -> None:
    axes = None
    styles = line_styles(len(curves)) if len(curves) > 1 else [{"color": BLUE, "linestyle": "-", "marker": "o"}]
    for number, (name, label, scale) in enumerate(_PANELS):
        axes = figure.add_subplot(grid[2 + number], sharex=axes)
        for style, (model, speed) in zip(styles, curves.items(), strict=True):
            _draw_curve(axes, speed.curve or (), name, scale, style, model if len(curves) > 1 else "likely")
        if len(curves) == 1:
            (speed,) = curves.values()
            planned = speed.load.concurrency
            axes.axvline(planned, color=ORANGE, linestyle="--", label=f"planned: {planned:g} in flight")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        if number == 0:
            axes.set_title(_loads(curves), fontsize=11, loc="left")
            axes.legend(frameon=False, fontsize=10, loc="upper left")
        if number + 1 < len(_PANELS):
            axes.tick_params(labelbottom=False)
    figure.align_ylabels(figure.axes[2:])
    assert axes is not None
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("requests in flight in one replica, up to as many as it holds")


def _draw_curve(
    axes: Any, curve: Sequence[CurvePoint], name: str, scale: float, style: Mapping[str, Any], label: str
) -> None:
    bands = [getattr(point.figures, name) for point in curve]
    numbers = [point.concurrency for point in curve]
    low, typical, high = ([scale * end for end in ends] for ends in zip(*map(_ends, bands), strict=True))
    single = label == "likely"
    axes.fill_between(
        numbers, low, high, facecolor=style["color"] if not single else LIGHT, alpha=0.12 if not single else 1.0,
        edgecolor=GREY, linewidth=0.8, label="in nine of ten cases" if single else None,
    )  # fmt: skip
    axes.plot(numbers, typical, markevery=max(1, len(numbers) // 8), label=label, **style)


def _loads(curves: Mapping[str, Throughput]) -> str:
    loads = {(speed.load.input_tokens, speed.load.output_tokens) for speed in curves.values()}
    if len(loads) > 1:
        return "One replica"
    ((given, answered),) = loads
    return f"One replica, prompts of {given:,} and answers of {answered:,} tokens"


def _ends(band: Band) -> tuple[float, float, float]:
    return band.low, band.typical, band.high
