"""What the controller counts, as Prometheus reads it (https://prometheus.io/docs/instrumenting/exposition_formats/)."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

Outcome = Literal["success", "error"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histogram: from a reconciliation without requests to one that waits for time limits."""

Samples = Iterable[tuple[str, Mapping[str, str], float]]
"""Suffix of the name, labels and value of each."""


class Metrics:
    """Reconciliations that have ended. Called by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._results: dict[Outcome, int] = dict.fromkeys(get_args(Outcome), 0)
        self._counts = [0] * (len(SECONDS) + 1)
        self._sum = 0.0

    def ended(self, result: Outcome, seconds: float) -> None:
        """Count one reconciliation."""
        with self._lock:
            self._results[result] += 1
            self._counts[bisect_left(SECONDS, seconds)] += 1
            self._sum += seconds

    def text(self, *, depth: int, failing: int, leading: bool, objects: Iterable[Mapping[str, Any]]) -> str:
        """All metrics; what is so at present is handed over. objects: those that are reconciled."""
        with self._lock:
            results, counts, total = dict(self._results), list(self._counts), self._sum
        found = Counter(_standing(item) for item in objects)
        services = [
            ("", {"kind": kind, "ready": ready, "reason": reason}, float(count))
            for (kind, ready, reason), count in sorted(found.items())
        ]
        return "".join(
            (
                _metric(
                    "reconcile_total", "counter", "Reconciliations that have ended.",
                    [("", {"result": result}, float(count)) for result, count in results.items()],
                ),
                _metric(
                    "reconcile_duration_seconds", "histogram", "How long reconciliations took.",
                    _histogram(counts, total),
                ),
                _metric("queue_depth", "gauge", "Keys that are due and wait for a worker.", [("", {}, float(depth))]),
                _metric("failing", "gauge", "Keys whose last reconciliation failed.", [("", {}, float(failing))]),
                _metric("leader", "gauge", "1 if this process reconciles, 0 if it waits.", [("", {}, float(leading))]),
                _metric("objects", "gauge", "Objects by kind, and status and reason of condition Ready.", services),
            )
        )  # fmt: skip


def _standing(item: Mapping[str, Any]) -> tuple[str, str, str]:
    """The kind of an object, and the status and the reason of its condition Ready."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    ready: Mapping[str, Any] = next((one for one in conditions if one.get("type") == "Ready"), {})
    return str(item.get("kind")), str(ready.get("status") or "Unknown"), str(ready.get("reason") or "")


def _histogram(counts: list[int], total: float) -> Samples:
    cumulated = 0
    for bound, count in zip((*(f"{bound:g}" for bound in SECONDS), "+Inf"), counts, strict=True):
        cumulated += count
        yield "_bucket", {"le": bound}, float(cumulated)
    yield "_sum", {}, total
    yield "_count", {}, float(cumulated)


def _metric(name: str, type_: str, description: str, samples: Samples) -> str:
    full = f"rayllm_controller_{name}"
    lines = [f"# HELP {full} {description}", f"# TYPE {full} {type_}"]
    for suffix, labels, value in samples:
        inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{full}{suffix}{f'{{{inner}}}' if inner else ''} {value!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
