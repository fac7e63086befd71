"""Names of the columns that travel through Ray Data: what a stage gets, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rayllm_ctl.serving.batch.parts import Answer, Ask
from rayllm_ctl.serving.batch.settings import Settings

ERROR = "__inference_error__"
"""Ray's own: stages let rows pass in which it is not empty. It has to be there, and empty, in all other rows."""

TEXT, FLOATS = "generated_text", "embedding"
RESULT = ("part", "index", TEXT, FLOATS, "finish_reason", "prompt_tokens", "completion_tokens", ERROR)

SPENT = {"prompt": None, "messages": None, "sampling_params": None, "pooling_params": None, "tokenized_prompt": None}
"""Over the columns that the engine has used: they need not travel back."""


def block(
    number: int, asks: list[Ask | str], settings: Settings, *, lora: bool, indexes: Sequence[int] | None = None
) -> pa.Table:
    """Rows of a part. In place of an Ask, the error of a row that never reaches the engine. indexes: their places in
    the part, where they are not all of it."""
    texts = {name: [getattr(ask, name, None) for ask in asks] for name in ("prompt", "messages")}
    parameters = [ask.sampling if isinstance(ask, Ask) else "{}" for ask in asks]
    table = {
        "part": pa.array([number] * len(asks), pa.int64()),
        "index": pa.array(range(len(asks)) if indexes is None else indexes, pa.int64()),
        **{name: pa.array(values, pa.string()) for name, values in texts.items()},
        "sampling_params" if settings.task == "generate" else "pooling_params": pa.array(parameters, pa.string()),
        ERROR: pa.array([_clean(ask) if isinstance(ask, str) else "" for ask in asks], pa.string()),
    }
    if lora:
        models = [ask.model if isinstance(ask, Ask) else settings.engine.model for ask in asks]
        table["model"] = pa.array(models, pa.string())
    return pa.table(table)


def result(row: dict[str, Any]) -> dict[str, Any]:
    """What is left of an answered row at the end of the pipeline."""
    return {name: row.get(name) for name in RESULT}


def answer(row: dict[str, Any]) -> tuple[int, int, Answer]:
    """Part, index and answer of a row that came back."""
    place = int(row["part"]), int(row["index"])
    if row[ERROR]:
        return *place, Answer(error=row[ERROR])
    content = row[FLOATS] if row[FLOATS] is not None else row[TEXT]
    return *place, Answer(content, row["finish_reason"], row["prompt_tokens"], row["completion_tokens"])


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode() or "unknown error"
