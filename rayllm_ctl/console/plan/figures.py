"""Figures of a plan as text, with or without their band."""

from __future__ import annotations

from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.plan.plan import Band


def figure(band: Band, form: str, wide: bool, scale: float = 1.0) -> str:
    return banded(band, form, scale) if wide else form.format(band.typical * scale)


def banded(band: Band, form: str, scale: float = 1.0) -> str:
    low, typical, high = (form.format(x * scale) for x in (band.low, band.typical, band.high))
    return typical if low == high else f"{typical} ({low}–{high})"


def counted(band: Band) -> str:
    return banded(band, "{:.1f}" if band.typical < 10 else "{:,.0f}")


def minutes(seconds: float) -> str:
    return format_duration(seconds) if seconds < 90 else f"{round(seconds / 60)} min"
