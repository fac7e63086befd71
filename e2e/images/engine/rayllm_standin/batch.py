"""A stage for Ray Data LLM that does everything but the arithmetic.

A batch job takes it in place of vLLM where RAYLLM_BATCH_ENGINE_STAGE is `rayllm_standin.batch:StandInStage`. The job is
planned, placed, scaled, killed and resumed as with vLLM, on a machine without a GPU.

Settings, from the environment of the Ray processes:

RAYLLM_STANDIN_BATCH_SECONDS  how long each answer takes (default 0.05)
RAYLLM_STANDIN_START_SECONDS  how long the start takes, as loading weights would (default 0)

A prompt can ask that its answer waits until it is released: see holds.py. It takes no place meanwhile.
A prompt that contains FAIL is rejected, as vLLM rejects one that is too long; one that contains CRASH ends the process,
as Ray's stage does when vLLM's engine is dead. `max_num_seqs` of the engine's arguments
bounds the answers in progress.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from typing import Any

from ray.llm._internal.batch.stages.base import StatefulStageUDF
from ray.runtime_context import get_runtime_context
from ray.util.placement_group import get_current_placement_group

from rayllm_standin import holds, replies

REJECTED, DEADLY = "FAIL", "CRASH"
VLLM_DEFAULT_MAX_NUM_SEQS = 256
_ERROR = "__inference_error__"


class StandInStage(StatefulStageUDF):
    """Answers with the prompt's first words; refuses to start without the GPUs that its parallelism needs."""

    def __init__(
        self, data_column: str, expected_input_keys: list[str], model: str, engine_kwargs: dict[str, Any], **_: Any
    ) -> None:
        super().__init__(data_column, expected_input_keys)
        self._model = model
        devices = engine_kwargs.get("tensor_parallel_size", 1) * engine_kwargs.get("pipeline_parallel_size", 1)
        group = get_current_placement_group()
        bundles = group.bundle_specs if group else [get_runtime_context().get_assigned_resources()]
        reserved = sum(bundle.get("GPU", 0) for bundle in bundles)
        if devices > 1 and reserved < devices:
            raise RuntimeError(f"the engine has {reserved:g} GPUs, and its parallelism needs {devices}")
        self._slots = asyncio.Semaphore(engine_kwargs.get("max_num_seqs", VLLM_DEFAULT_MAX_NUM_SEQS))
        self._seconds = float(os.environ.get("RAYLLM_STANDIN_BATCH_SECONDS", "0.05"))
        time.sleep(float(os.environ.get("RAYLLM_STANDIN_START_SECONDS", "0")))

    async def udf(self, batch: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """The answers of a batch, in the columns that the job's own stage gives."""
        tasks = [asyncio.create_task(self._answer(row)) for row in batch]
        for task in asyncio.as_completed(tasks):
            yield await task

    async def _answer(self, row: dict[str, Any]) -> dict[str, Any]:
        parameters = json.loads(row.get("sampling_params") or "{}")
        body = {"model": row.get("model") or self._model, "max_tokens": parameters.get("max_tokens")}
        if row.get("messages"):
            body["messages"] = json.loads(row["messages"])["messages"]
            prompt = body["messages"][-1]["content"]
        else:
            body["messages"], prompt = [{"content": row["prompt"]}], row["prompt"]
        if (hold := holds.wanted(str(prompt))) is not None:
            await holds.wait(hold)
        async with self._slots:
            await asyncio.sleep(self._seconds)
        if DEADLY in str(prompt):
            os._exit(1)
        out = {
            **dict.fromkeys(("prompt", "messages", "sampling_params", "pooling_params")),
            self.IDX_IN_BATCH_COLUMN: row[self.IDX_IN_BATCH_COLUMN],
            "generated_text": None,
            "embedding": None,
            "finish_reason": None,
            "prompt_tokens": None,
            "completion_tokens": None,
        }
        if REJECTED in str(prompt):
            return {**out, _ERROR: "ValueError: the prompt is too long for the model"}
        ask = replies.chat_ask(body)
        words = list(replies.tokens(ask))
        return {
            **out,
            "generated_text": f"{prompt} -> {''.join(words)}",
            "finish_reason": replies.finish_reason(ask, len(words)),
            "prompt_tokens": ask.prompt_tokens,
            "completion_tokens": len(words),
            _ERROR: "",
        }
