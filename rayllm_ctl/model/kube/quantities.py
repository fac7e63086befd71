"""Units that users write and read: Kubernetes quantities, Go durations, bytes."""

from __future__ import annotations

import re

from rayllm_ctl.model.text.problems import quoted

GIB = 2**30
_SUFFIX = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_POWER = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)", re.ASCII)
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_LARGEST = 2.0**63
"""Of quantities, and of the nanoseconds of a duration: Kubernetes keeps both in 64 bits."""


def parse_quantity(text: str) -> float:
    """A Kubernetes quantity ("500m", "16Gi") as a number of cores or bytes. ValueError if it is none."""
    match = _QUANTITY.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{quoted(text)} is not a valid quantity, such as 500m, 4 or 16Gi")
    number, exponent, suffix = match.groups()
    found = float(number + (exponent or "")) * _SUFFIX[suffix or ""]
    if abs(found) > _LARGEST:
        raise ValueError(f"{quoted(text)} exceeds the largest quantity, 9223372036854775807")
    return found


def canonical_quantity(text: str) -> str:
    """`text` as Kubernetes writes it back: 1000m is 1, 0.5 is 500m, 1024Mi is 1Gi, 1.5Gi is 1536Mi.

    The largest suffix of its kind (decimal, binary, exponent) with which the number is whole; what is finer than a
    nano-unit is rounded up (k8s.io/apimachinery, pkg/api/resource, ParseQuantity and CanonicalizeBytes).
    ValueError if it is not a quantity.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{quoted(text)} is not a Kubernetes quantity such as 500m, 4 or 16Gi")
    parse_quantity(text)  # the limits
    number, exponent, suffix = match.groups()
    whole, _, fraction = number.lstrip("+-").partition(".")
    power = int(exponent[1:]) if exponent else _POWER.get(suffix or "", 0)
    factor = int(_SUFFIX[suffix]) if suffix and suffix.endswith("i") else 1
    shift = 9 + power - len(fraction)
    nano = int(whole + fraction) * factor * 10 ** max(0, shift)
    nano = -(-nano // 10 ** max(0, -shift))
    sign = "-" if number.startswith("-") and nano else ""
    if factor > 1 and nano % 10**9 == 0 and nano // 10**9 >= 1024:
        return sign + _reduced(nano // 10**9, 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    if exponent:
        return sign + _reduced(nano, 1000, ("e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18"))
    return sign + _reduced(nano, 1000, ("n", "u", "m", "", "k", "M", "G", "T", "P", "E"))


def _reduced(number: int, base: int, suffixes: tuple[str, ...]) -> str:
    """`number` in the unit of the first suffix, in the largest unit that leaves it whole."""
    if number == 0:
        return "0"
    step = 0
    while number % base == 0 and step < len(suffixes) - 1:
        number, step = number // base, step + 1
    return f"{number}{suffixes[step]}"


def parse_duration(text: str) -> float:
    """A duration as Go writes it, in h, m, s and ms ("90s", "1h30m"), in seconds. ValueError for any other text."""
    if text.strip() == "0":
        return 0.0
    parts = _DURATION.findall(text.strip())
    if not parts or "".join(a + b for a, b in parts) != text.strip():
        number = text.strip()
        example = f"{number}s, {number}m or {number}h" if number.isdecimal() else "90s, 5m or 1h30m"
        raise ValueError(f'"{text}" is not a valid duration, such as {example}')
    found = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if found * 1e9 > _LARGEST:
        raise ValueError(f"{quoted(text)} exceeds the longest duration, 2562047h")
    return found


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


def whole_seconds(seconds: float | None) -> float | int | None:
    """2.0 as 2: what readers of JSON take as an integer has to be written as one."""
    return int(seconds) if seconds is not None and seconds == int(seconds) else seconds


def whole_duration(seconds: float) -> str:
    """Seconds as Prometheus and the Gateway API write a duration: whole seconds, or else milliseconds."""
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds * 1000:.0f}ms"


def format_estimate(seconds: float) -> str:
    """An estimated time for people: 40 s, 3 min."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def gib(number_of_bytes: float) -> str:
    """Bytes as GiB with one decimal, without the unit."""
    return f"{number_of_bytes / GIB:.1f}"
