"""The state of a service during a load test, and its prediction, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rayllm_ctl.model.kube.quantities import GIB, format_duration

_PREDICTED = (
    ("requestsPerSecond", "{:.3g} requests/s", 1.0),
    ("outputTokensPerSecond", "{:,.0f} tokens/s", 1.0),
    ("ttftSeconds", "TTFT {:.3g} ms", 1e3),
    ("tpotSeconds", "TPOT {:.3g} ms", 1e3),
    ("kvCacheBytes", "KV cache {:.1f} GiB", 1 / GIB),
)


def service_rows(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows `service` and `predicted` of one result; those of older versions have none."""
    if run.get("service"):
        yield from (("service", line) for line in service_lines(run["service"]))
    if run.get("predicted"):
        yield "predicted", prediction(run["predicted"])
    elif run.get("notPredicted"):
        yield "predicted", f"nothing: {run['notPredicted']}"


def rows_by_load(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[tuple[str, str]]:
    """The rows of several loads, each with its name; the reason for a missing prediction is shown once."""
    rows = [(load, list(service_rows(run)), run) for load, run in runs]
    for label in ("service", "predicted"):
        said: set[str] = set()
        for load, found, run in rows:
            text = "; ".join(line for name, line in found if name == label)
            if label == "predicted" and not run.get("predicted"):
                if text in said:
                    continue
                said.add(text)
            elif text:
                text = f"{load}: {text}"
            if text:
                yield label, text


def service_lines(service: Mapping[str, Any]) -> Iterator[str]:
    """Replicas, and maximum figures of the engines."""
    if text := replicas(service):
        yield text
    most = service["max"]
    parts = []
    if most["running"] is not None:
        parts += [f"running at most {most['running']:,}", f"waiting {most['waiting']:,}"]
    if most["queued"] is not None:
        parts.append(f"{most['queued']:,} in the gateway's queue")
    if most["kvCacheUsage"] is not None:
        parts.append(f"KV cache {most['kvCacheUsage']:.0%}")
    if most["preemptions"] is not None:
        parts.append(f"{most['preemptions']:,} preemption{'' if most['preemptions'] == 1 else 's'}")
    if parts:
        yield ", ".join(parts)


def replicas(service: Mapping[str, Any]) -> str:
    """The number of running replicas, and the times of its changes."""
    known = [sample["replicas"] for sample in service["samples"] if sample["replicas"] is not None]
    if not known:
        return ""
    changes = service["scaling"]
    if not changes:
        return f"{known[0]:,} replica{'' if known[0] == 1 else 's'}"
    course = " → ".join(map(str, (known[0], *(change["to"] for change in changes))))
    moments = ", ".join(format_duration(change["atSeconds"]) for change in changes)
    return f"replicas {course} (after {moments})"


def prediction(predicted: Mapping[str, Any]) -> str:
    """Each planned figure, and the ratio of the measured one."""
    return ", ".join(
        f"{form.format(predicted[name]['predicted'] * scale)} (measured ×{predicted[name]['ratio']:.2f})"
        for name, form, scale in _PREDICTED
        if predicted.get(name)
    )


def service_problems(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why figures of the service are unknown, each reason once."""
    return list(dict.fromkeys(one for run in runs for one in (run.get("service") or {}).get("problems", ())))
