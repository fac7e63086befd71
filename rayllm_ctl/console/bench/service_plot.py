"""A service during a load, second by second: requests above, replicas below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rayllm_ctl.console.drawing import BLUE, ORANGE, PURPLE

_LINES = (
    ("running", "running", "--", "s", BLUE),
    ("waiting", "waiting", ":", "^", ORANGE),
    ("queued", "in the gateway's queue", "-.", "D", PURPLE),
)
"""Figure, label, dashes, mark and colour."""


def has_service(run: Mapping[str, Any]) -> bool:
    """Whether a result contains figures of its service to draw."""
    found = run.get("service")
    return found is not None and any(found["max"][name] is not None for name in ("replicas", "running", "queued"))


def drawing(run: Mapping[str, Any]) -> Callable[[Any, Any], None]:
    """What draws one result. The plot of the page has one pair of axes: a second is put below it for replicas."""

    def draw(axes: Any, _: Any) -> None:
        samples = run["service"]["samples"]
        answered = [second["succeeded"] for second in run["timeline"][:-1] or run["timeline"]]
        every = max(1, len(answered) // 10)
        axes.plot(
            range(len(answered)), answered, "-", marker="o", markevery=every, color="0", label="answered per second"
        )
        for name, label, line, mark, color in _LINES:
            _steps(axes, samples, name, label, line, mark, color)
        axes.set_ylabel("requests")
        axes.set_ylim(0, 1.4 * max(1.0, axes.get_ylim()[1]))  # the legend is above the lines
        axes.legend(frameon=False, fontsize=10, ncols=2, loc="upper left")
        last = axes
        if run["service"]["max"]["replicas"] is not None:
            last = _replicas(axes, samples)
        last.set_xlabel("seconds since the first request")

    return draw


def _replicas(axes: Any, samples: Sequence[Mapping[str, Any]]) -> Any:
    grid = axes.figure.add_gridspec(2, 1, height_ratios=(2, 1))
    axes.set_subplotspec(grid[0])
    axes.tick_params(labelbottom=False)
    below = axes.figure.add_subplot(grid[1], sharex=axes)
    _steps(below, samples, "wanted", "wanted", "--", "", ORANGE)
    _steps(below, samples, "replicas", "running", "-", "", BLUE)
    below.set_ylabel("replicas")
    below.set_ylim(bottom=0)
    below.margins(y=0.25)
    below.locator_params(axis="y", integer=True)
    below.legend(frameon=False, fontsize=10, ncols=2, loc="lower right")
    return below


def _steps(
    axes: Any, samples: Sequence[Mapping[str, Any]], name: str, label: str, line: str, mark: str, color: str
) -> None:
    """The steps of a figure between samples, with gaps for unknown values."""
    values = [sample[name] if sample[name] is not None else float("nan") for sample in samples]
    if all(sample[name] is None for sample in samples):
        return
    axes.plot(
        [sample["atSeconds"] for sample in samples], values, line, drawstyle="steps-post", marker=mark, color=color,
        markevery=max(1, len(values) // 8), label=label,
    )  # fmt: skip
