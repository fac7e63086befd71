"""Units that users write and read: Kubernetes quantities, Go durations, bytes."""

from __future__ import annotations

import re

GIB = 2**30
_SUFFIX = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def parse_quantity(text: str) -> float:
    """A Kubernetes quantity ("500m", "16Gi") as a number of cores or bytes. ValueError if it is not one."""
    match = _QUANTITY.fullmatch(text.strip())
    if not match:
        raise ValueError(f'"{text}" is not a valid quantity, such as 500m, 4 or 16Gi')
    number, exponent, suffix = match.groups()
    return float(number + (exponent or "")) * _SUFFIX[suffix or ""]


def parse_duration(text: str) -> float:
    """A Go duration ("90s", "5m", "1h30m") in seconds. ValueError if it is not one."""
    if text.strip() == "0":
        return 0.0
    parts = _DURATION.findall(text.strip())
    if not parts or "".join(a + b for a, b in parts) != text.strip():
        raise ValueError(f'"{text}" is not a valid duration, such as 90s, 5m or 1h30m')
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def format_duration(seconds: float) -> str:
    """Seconds for people: 8s, 2m10s, 1h05m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m"


def gib(number_of_bytes: float) -> str:
    """Bytes as GiB with one decimal, without the unit."""
    return f"{number_of_bytes / GIB:.1f}"
