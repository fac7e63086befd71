"""Files of calibrations, which `bench --calibrate` writes and `--calibration` reads: YAML, or JSON if it is named so.

calibrations:
- model: Qwen/Qwen3-32B
  gpu: H100-80GB
  tensor: 2
  pipeline: 1
  vllmVersion: 0.29.0
  throughput: 0.83        # measured / planned
  ttft: 1.21
  tpot: 1.18
  date: 2026-11-23
  inFlight: 16
  inputTokens: 256
  outputTokens: 128
  requests: 640
  kvCache: 0.99           # with --startup-plan: measured / planned, and the bytes of both
  kvCacheBytes: 56371445760
  plannedKvCacheBytes: 56941000000
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import date
from pathlib import Path
from typing import Any

from rayllm_ctl.catalog.yaml_text import parse_yaml
from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import read_input
from rayllm_ctl.model.plan.calibration import Calibration
from rayllm_ctl.model.text.json_form import camel

_MAX_BYTES = 1_000_000
_NAMES = {camel(one.name): one.name for one in fields(Calibration)}
_MEMORY = {"kvCache", "kvCacheBytes", "plannedKvCacheBytes"}
_OPTIONAL = {"quantization", "kvCacheDtype", *_MEMORY}
_TEXTS = {"model", "gpu", "vllmVersion", "date", "quantization", "kvCacheDtype"}
_COUNTS = {
    "tensor", "pipeline", "inputTokens", "outputTokens", "requests", "kvCacheBytes", "plannedKvCacheBytes",
}  # fmt: skip


def read_calibrations(path: Path) -> tuple[Calibration, ...]:
    """The calibrations of a file. UsageError if it is missing or is none."""
    try:
        data = read_input(path, "--calibration FILE", _MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise UsageError(f"calibration file {path} is larger than {_MAX_BYTES // 1000} kB")
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(
            f"the calibration file {path} cannot be read: {reason.lower()}",
            hint=f"rayllm-ctl bench NAME --calibrate {path}",
        ) from error
    import yaml

    try:
        document = parse_yaml(text)
    except yaml.YAMLError as error:
        raise UsageError(f"calibration file {path} is not valid YAML: {' '.join(str(error).split())}") from error
    entries = document.get("calibrations") if isinstance(document, Mapping) else None
    if not isinstance(entries, list) or set(document) != {"calibrations"}:
        raise _wrong(path, "it has to have a list `calibrations`, and nothing else")
    found = tuple(_calibration(entry, number, path) for number, entry in enumerate(entries, 1))
    twice = [one for place, one in enumerate(found) if any(one.holds_for == other.holds_for for other in found[:place])]
    if twice:
        raise _wrong(path, f"it has two entries for {twice[0]}")
    return found


def merge_calibrations(before: Sequence[Calibration], new: Calibration) -> list[Calibration]:
    """`before` and `new`, which replaces one that holds for the same; in a stable order."""
    kept = [one for one in before if one.holds_for != new.holds_for]
    return sorted([*kept, new], key=lambda one: one.holds_for)


def _calibration(entry: Any, number: int, path: Path) -> Calibration:
    if not isinstance(entry, Mapping):
        raise _wrong(path, f"entry {number} is not a mapping")
    unknown = sorted(str(key) for key in set(entry) - set(_NAMES))
    missing = sorted(set(_NAMES) - _OPTIONAL - set(entry))
    if unknown or missing:
        what = f"has the unknown key `{unknown[0]}`" if unknown else f"lacks `{missing[0]}`"
        raise _wrong(path, f"entry {number} {what}")
    return Calibration(**{_NAMES[key]: _value(str(key), value, number, path) for key, value in entry.items()})


def _value(key: str, value: Any, number: int, path: Path) -> Any:
    if key in _TEXTS:
        text = value.isoformat() if isinstance(value, date) else value
        if isinstance(text, str) and text:
            return text
        raise _wrong(path, f"`{key}` of entry {number} is {value!r}, not text")
    wanted = int if key in _COUNTS else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted) or not 0 < value < math.inf:
        what = "a whole number" if key in _COUNTS else "a number"
        raise _wrong(path, f"`{key}` of entry {number} is {value!r}, not {what} greater than 0")
    return value


def _wrong(path: Path, problem: str) -> UsageError:
    return UsageError(f"calibration file {path}: {problem}", hint="see docs/how-to/bench.md for its form")
