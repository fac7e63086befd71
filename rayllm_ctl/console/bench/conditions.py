"""The content, time and versions of a load as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

NOT_RECORDED = "unknown: the result is from an older release, which did not record it"
COMPONENTS = {"rayllm-ctl": "rayllm-ctl", "vllm": "vLLM", "ray": "Ray"}


def condition_rows(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of a result, each with its label."""
    yield "prompts", _prompts(run["prompts"]) if "prompts" in run else NOT_RECORDED
    if "startedAt" in run and "versions" in run:
        begun = datetime.fromisoformat(run["startedAt"])
        versions = (f"{name} {run['versions'].get(key) or 'unknown'}" for key, name in COMPONENTS.items())
        yield "measured", f"{begun:%Y-%m-%d %H:%M} UTC, {', '.join(versions)}"
    else:
        yield "measured", NOT_RECORDED


def _prompts(prompts: Mapping[str, Any]) -> str:
    answers = f"answers of {length_in_words(prompts['output'])}" if prompts["output"] else "answers of any length"
    if "rows" in prompts:
        return f"{prompts['rows']:,} rows of a file (sha256 {prompts['sha256'][:12]}), {answers}"
    shared = f", {prompts['prefix']:,} of them shared" if prompts["prefix"] else ""
    cut = f", cut by {prompts['tokenizer']}" if prompts.get("tokenizer") else ""
    return f"{length_in_words(prompts['input'])}{shared}{cut}, {answers}, seed {prompts['seed']}"


def length_in_words(length: Mapping[str, Any]) -> str:
    """A distribution of numbers of tokens."""
    match length["kind"]:
        case "fixed":
            return f"{length['low']:,} tokens"
        case "uniform":
            return f"{length['low']:,} to {length['high']:,} tokens"
    return f"{length['low']:,} tokens (median, sigma {length['sigma']:g}, at most {length['high']:,})"
