"""Ray's stages with what a batch job needs in addition: the finish reason, and errors that stay with their row."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from typing import Any

from ray.llm._internal.batch.stages.chat_template_stage import ChatTemplateUDF
from ray.llm._internal.batch.stages.vllm_engine_stage import vLLMEngineStageUDF

from rayllm_ctl.serving.batch.failures import BatchError
from rayllm_ctl.serving.batch.inference.adapters import Folders
from rayllm_ctl.serving.batch.inference.columns import ERROR, FLOATS, SPENT, TEXT
from rayllm_ctl.serving.batch.settings import Engine, Storage

_LOOK_SECONDS = 2.0
"""How often it is looked whether the engine is alive while an adapter is loaded."""


class ChatStage(ChatTemplateUDF):  # type: ignore[misc]
    """Puts messages through the model's chat template and tokenizes them.

    The template writes the special tokens that begin a prompt, so the tokenizer must not add its own again.
    """

    async def udf(self, batch: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        tokenizer: Any = getattr(self.processor, "tokenizer", self.processor)
        for row in batch:
            out = {self.IDX_IN_BATCH_COLUMN: row[self.IDX_IN_BATCH_COLUMN], "messages": None, ERROR: ""}
            try:
                chat = json.loads(row["messages"])
                again = self._should_add_generation_prompt(chat["messages"])
                text = self.processor.apply_chat_template(
                    chat["messages"],
                    tokenize=False,
                    add_generation_prompt=again,
                    continue_final_message=not again,
                    **chat["kwargs"],
                )
                yield {**out, "tokenized_prompt": tokenizer(text, add_special_tokens=False)["input_ids"]}
            except Exception as error:
                # Templates raise whatever their author chose, such as for roles in a wrong order.
                yield {**out, "tokenized_prompt": None, ERROR: f"chat template: {error}"}


class EngineStage(vLLMEngineStageUDF):  # type: ignore[misc]
    """Ray's engine stage, which drops why an answer ended and passes on token ids that nobody needs."""

    engine: Engine
    storage: Storage

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reasons: dict[int, str | None] = {}
        generate = self.llm._generate_async

        async def remember(request: Any) -> Any:
            output = await generate(request)
            if hasattr(output.outputs, "__getitem__"):
                self._reasons[request.request_id] = output.outputs[0].finish_reason
            return output

        self.llm._generate_async = remember
        if self.engine.loraPath is not None:
            self._folders = Folders(self.engine.loraPath, self.storage)
            self._adapters: dict[str, Any] = {}
            self._loading = asyncio.Lock()
            self.llm._maybe_get_lora_request = self._adapter_of

    async def udf(self, batch: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """The answers of a batch. RuntimeError if the job cannot continue without an adapter."""
        if self.engine.loraPath is not None:
            for name in sorted({row["model"] for row in batch} - {self.model}):
                await self._load(name)
        async for answer in super().udf(batch):
            yield answer

    async def _adapter_of(self, row: dict[str, Any]) -> Any:
        """The request for the adapter of a row; None for the model itself. ValueError if there is no such adapter."""
        adapter = None if row["model"] == self.model else self._adapters[row["model"]]
        if isinstance(adapter, str):
            raise ValueError(adapter)
        return adapter

    async def _load(self, name: str) -> None:
        """Have the engine load an adapter, once. A wrong one would end the engine if a request came first."""
        async with self._loading:
            if name not in self._adapters:
                self._adapters[name] = await self._loaded(name, len(self._adapters) + 1)
        failure = self._adapters[name]
        if isinstance(failure, str) and name == self.engine.adapter:
            raise RuntimeError(failure)

    async def _loaded(self, name: str, number: int) -> Any:
        """The request for an adapter, or why there is none. RuntimeError if its files cannot be read now."""
        from vllm.lora.request import LoRARequest
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            folder = await asyncio.to_thread(self._folders.of, name)
        except BatchError as error:
            if error.code == "InputMissing":
                return error.message
            raise RuntimeError(error.message) from None
        request = LoRARequest(lora_name=name, lora_int_id=number, lora_path=folder)
        loading = asyncio.ensure_future(self.llm.engine.add_lora(request))
        # It never returns from an engine that dies meanwhile (vLLM 0.29, v1/engine/core_client.py).
        while not loading.done() and not self.llm.engine.errored:
            await asyncio.wait({loading}, timeout=_LOOK_SECONDS)
        try:
            if loading.done():
                loading.result()
            else:
                loading.cancel()
        except EngineDeadError:
            pass  # With the request Ray's stage finds that the engine is dead, and has it started again.
        except Exception as error:
            # Of files that are wrong in any way: what reads them raises whatever it likes.
            return f"vLLM cannot load the LoRA adapter {name}: {error}"
        return request

    async def _generate_with_error_handling(self, row: dict[str, Any], batch_uuid: uuid.UUID) -> dict[str, Any]:
        asked = {name: value for name, value in row.items() if name not in SPENT or value is not None}
        for name in ("sampling_params", "pooling_params"):
            if name in asked:
                asked[name] = json.loads(asked[name])
        output = await super()._generate_with_error_handling(asked, batch_uuid)
        reason = self._reasons.pop(output["request_id"], None)
        floats = output["embeddings"]
        return {
            **SPENT,
            self.IDX_IN_BATCH_COLUMN: output[self.IDX_IN_BATCH_COLUMN],
            TEXT: output["generated_text"] if floats is None else None,
            FLOATS: None if floats is None else [float(value) for value in floats],
            "finish_reason": reason,
            "prompt_tokens": output["num_input_tokens"],
            "completion_tokens": output["num_generated_tokens"],
            ERROR: output[ERROR],
        }


def engine_stage(engine: Engine, storage: Storage) -> type[EngineStage]:
    """The class of the engine stage of a job."""
    return type("EngineStage", (EngineStage,), {"engine": engine, "storage": storage})
