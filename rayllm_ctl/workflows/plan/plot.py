"""The picture of a plan, as a file."""

from __future__ import annotations

from pathlib import Path

from rayllm_ctl.console.drawing import Format
from rayllm_ctl.console.plan.plots import plan_image
from rayllm_ctl.errors import UsageError, UserError, not_written
from rayllm_ctl.model.plan.plan import Plan

_FORMATS: dict[str, Format] = {".png": "png", ".svg": "svg"}


def check_plot_file(file: Path) -> None:
    """Raise UsageError if the name of the file states no known format, or its directory does not exist."""
    if file.suffix.lower() not in _FORMATS:
        raise UsageError(f"--plot {file}: expected a name that ends in .png or .svg", hint="--plot plan.svg")
    if not file.parent.is_dir():
        raise UsageError(f"--plot {file}: there is no directory {file.parent}", hint=f"mkdir -p {file.parent}")


def write_plot(plan: Plan, file: Path) -> None:
    """Draw the plan. Raises UserError if it has nothing to draw or the file cannot be written."""
    image = plan_image(plan, _FORMATS[file.suffix.lower()])
    if image is None:
        raise UserError(f"--plot {file}: nothing was drawn, since the plan has no GPU memory")
    try:
        file.write_bytes(image)
    except OSError as error:
        raise not_written(file, error) from error
