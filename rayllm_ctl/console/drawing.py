"""Images by matplotlib, which is imported when one is drawn. Lines differ in dashes and marks as well as in colour, and
bars in hatching: nothing is lost in black and white."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any, Literal

from rayllm_ctl.errors import UsageError

Format = Literal["png", "svg"]

SIZE = (6.4, 4.2)
"""Inches: the text is then large enough for a phone."""

BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#00795a", "#a0527d"
GREY, LIGHT = "0.45", "0.9"

_COLORS = ("#000000", BLUE, ORANGE, GREEN, PURPLE, "#3f7fb8", "#8a6d00")
"""Colours that differ for people who do not see all of them (after Okabe and Ito), dark enough for a white page."""
_DASHES = ("-", "--", ":", "-.")
_MARKS = ("o", "s", "^", "D", "x", "v", "P", "<", ">")

_RC: Any = {
    "font.size": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.88",
    "hatch.linewidth": 0.8,
    "svg.fonttype": "path",
    "svg.hashsalt": "rayllm-ctl",
    "figure.dpi": 150,
}


def line_styles(count: int) -> list[dict[str, Any]]:
    """Arguments of `plot` for lines that differ from each other."""
    styles = zip(cycle(_COLORS), cycle(_DASHES), cycle(_MARKS), strict=False)
    return [{"color": color, "linestyle": dash, "marker": mark} for color, dash, mark in islice(styles, count)]


def images(
    title: str, forms: Sequence[Format], draw: Callable[[Any], None], size: tuple[float, float] = SIZE
) -> dict[Format, bytes]:
    """What `draw` draws into a figure. size: in inches. Raises UsageError if matplotlib is missing."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(
            "plots need the package matplotlib, which the extra bench installs",
            hint=("pip install matplotlib", "pip install '.[bench]'    # in a clone of the repository"),
        ) from None
    found: dict[Format, bytes] = {}
    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=size, layout="constrained")
        # At the left edge of the figure: beside long labels of bars a title of the axes is cut off.
        figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
        draw(figure)
        for form in forms:
            image = io.BytesIO()
            # Equal input gives equal bytes: without the date.
            figure.savefig(image, format=form, metadata={"Date": None} if form == "svg" else None)
            found[form] = image.getvalue()
    return found
