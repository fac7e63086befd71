"""Everything that a load test was made with, as rows of a page: enough to repeat it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rayllm_ctl.console.bench.conditions import COMPONENTS, NOT_RECORDED, length_in_words
from rayllm_ctl.console.bench.results import limits_in_words, load_in_words
from rayllm_ctl.model.kube.quantities import format_duration


def configuration_rows(runs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Rows of the loads of one test, which differ in nothing but requests in flight or per second."""
    first = runs[0]
    load = first["load"]
    yield "Load", ", ".join(dict.fromkeys(load_in_words(run["load"]) for run in runs))
    if end := " or ".join(_end(load)):
        yield "Ends after", end
    if "rate" in load:
        yield "Arrivals", load["arrivals"] + (f" of {load['burst']}" if load["arrivals"] == "burst" else "")
    if load.get("rampSeconds"):
        yield "Ramp", format_duration(load["rampSeconds"])
    if load.get("warmup"):
        yield "Warm-up", _requests(load["warmup"])
    if "timeoutSeconds" in load:
        yield "Time limit of a request", format_duration(load["timeoutSeconds"])
    if "goodput" in first:
        yield "Limits", limits_in_words(first["goodput"]["objective"])
    yield from _content(first)
    yield "Measured", _when(runs)
    versions = first.get("versions")
    yield "Versions", NOT_RECORDED if versions is None else _versions(versions)


def _end(load: Mapping[str, Any]) -> Iterator[str]:
    if "requests" in load:
        yield _requests(load["requests"])
    if "durationSeconds" in load:
        yield format_duration(load["durationSeconds"])


def _requests(count: int) -> str:
    return f"{count:,} request{'' if count == 1 else 's'}"


def _content(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    prompts, request = run.get("prompts"), run.get("request")
    if prompts is None:
        yield "Prompts", NOT_RECORDED
    elif "rows" in prompts:
        yield "Prompts", f"{prompts['rows']:,} rows of a file, SHA-256 {prompts['sha256']}"
    else:
        yield "Prompts", length_in_words(prompts["input"])
        if prompts["prefix"]:
            yield "Shared beginning", f"{prompts['prefix']:,} tokens, {prompts['prefixes']:,} different"
        yield "Seed", str(prompts["seed"])
    if prompts is not None:
        yield "Answers", length_in_words(prompts["output"]) if prompts["output"] else "any length"
        if prompts.get("tokenizer"):
            yield "Tokenizer", prompts["tokenizer"]
    if request is not None:
        form = "streamed" if request["stream"] else "in one piece"
        fields = f", {json.dumps(request['fields'], ensure_ascii=False)}" if request["fields"] else ""
        yield "Requests", f"{request['api']}, answers {form}{fields}"


def _when(runs: Sequence[Mapping[str, Any]]) -> str:
    if any("startedAt" not in run for run in runs):
        return NOT_RECORDED
    begun = sorted(datetime.fromisoformat(run["startedAt"]) for run in runs)
    first, last = (f"{moment:%Y-%m-%d %H:%M}" for moment in (begun[0], begun[-1]))
    return f"{first} UTC" if first == last else f"{first} to {last} UTC"


def _versions(versions: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {versions.get(key) or 'unknown'}" for key, name in COMPONENTS.items())
