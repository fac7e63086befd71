"""Sampling parameters of each row: those of the job, and the row's own from its columns."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from rayllm_ctl.serving.batch.failures import BatchError
from rayllm_ctl.serving.batch.settings import Settings

UNSUPPORTED = ("n", "best_of", "logprobs", "prompt_logprobs", "stream", "output_kind")
"""What would give more than one answer text per row, or things for which the output has no column. The command rejects
the same ones before a cluster is asked (rayllm_ctl/model/spec/checks/batch.py)."""
ONE_ANSWER = ("n", "best_of")
"""Those of which 1 says what a batch job does anyway."""

_TEXTS = ("stop", "bad_words")


class Sampling:
    """vLLM's SamplingParams of each row as JSON; PoolingParams where the task is not `generate`."""

    def __init__(self, settings: Settings) -> None:
        given = {name: value for name, value in settings.sampling.items() if name not in ONE_ANSWER or value != 1}
        for name in (*given, *settings.samplingColumns):
            if name in UNSUPPORTED:
                raise BatchError(
                    "InvalidSpec",
                    f"sampling.{name} is not supported: there is one answer per row",
                    f"remove {name}",
                )
        self._columns = settings.samplingColumns
        self.defaults = with_context(given) if settings.task == "generate" else given
        if settings.jsonSchema is not None:
            self.defaults["structured_outputs"] = {"json": settings.jsonSchema}
        self._text = json.dumps(self.defaults)

    def of(self, row: dict[str, Any]) -> str:
        """The JSON of a row's parameters; a null in a column leaves the job's value."""
        own = {name: _value(name, row.get(column)) for name, column in self._columns.items()}
        own = {name: value for name, value in own.items() if value is not None}
        return json.dumps({**self.defaults, **own}) if own else self._text


def with_context(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters with answers as long as the context allows, where no limit is given. vLLM's default is 16 tokens."""
    return {"max_tokens": None, **parameters}


def _value(name: str, value: Any) -> Any:
    """A value of a column. CSV has text, where vLLM expects a number or a list."""
    if isinstance(value, Decimal):
        return float(value)
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        parsed = json.loads(value)
    except ValueError:
        return value
    return value if name in _TEXTS and not isinstance(parsed, list) else parsed
