# ruff: noqa: ARG002 - the engine protocol gives every method more than a stand-in needs
"""An engine for Ray Serve LLM that does everything but the arithmetic.

Ray Serve LLM loads it in place of vLLM where RAYLLM_VLLM_ENGINE_CLS is `rayllm_standin.engine:StandInEngine`. The
replica is built, placed with its placement group, scaled, upgraded and asked as with vLLM, on a machine without a GPU.

Settings, from the environment of the Ray processes:

RAYLLM_STANDIN_TOKENS_PER_SECOND  pace of each answer (default 20)
RAYLLM_STANDIN_START_SECONDS      how long the start takes, as loading weights would (default 0)
RAYLLM_STANDIN_FAIL_FILE          while this file exists in the pod, the engine is unhealthy
                                  (default /tmp/rayllm-standin-fail)

A prompt can ask that its answer waits until it is released: see holds.py.

`max_num_seqs` of the engine's arguments bounds the answers in progress; more requests wait, as in vLLM. It also stands
in for the Transformers engine, whose settings are in the experimental_configs and whose replica has no placement group.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from ray.llm._internal.serve.core.configs.llm_config import DiskMultiplexConfig, LLMConfig
from ray.llm._internal.serve.core.configs.openai_api_models import (
    ChatCompletionResponse,
    CompletionResponse,
    ErrorInfo,
    ErrorResponse,
)
from ray.llm._internal.serve.core.engine.protocol import LLMEngine
from ray.runtime_context import get_runtime_context
from ray.util.placement_group import get_current_placement_group

from rayllm_standin import holds, replies

VLLM_DEFAULT_MAX_NUM_SEQS = 256


class StandInEngine(LLMEngine):
    """Streams made-up answers at a set pace; refuses to start without the GPUs that its parallelism needs."""

    def __init__(self, llm_config: LLMConfig) -> None:
        self._config = llm_config
        arguments = llm_config.engine_kwargs
        self._devices = arguments.get("tensor_parallel_size", 1) * arguments.get("pipeline_parallel_size", 1)
        self._context = arguments.get("max_model_len")
        at_once = arguments.get("max_num_seqs", VLLM_DEFAULT_MAX_NUM_SEQS)
        if (settings := llm_config.experimental_configs.get("transformers")) is not None:
            self._devices, self._context = settings["gpus"], settings["max_model_len"]
            at_once = settings["max_batch_size"]
        self._slots = asyncio.Semaphore(at_once)
        self._seconds_per_token = 1 / float(os.environ.get("RAYLLM_STANDIN_TOKENS_PER_SECOND", "20"))
        self._start_seconds = float(os.environ.get("RAYLLM_STANDIN_START_SECONDS", "0"))
        self._fail_file = Path(os.environ.get("RAYLLM_STANDIN_FAIL_FILE", "/tmp/rayllm-standin-fail"))
        self._sleeping = self._paused = False

    async def start(self) -> None:
        """Wait as long as told. RuntimeError if the replica lacks the GPUs that the parallelism needs."""
        if self._config.accelerator_config.kind == "gpu":
            group = get_current_placement_group()
            bundles = group.bundle_specs if group else [get_runtime_context().get_assigned_resources()]
            reserved = sum(bundle.get("GPU", 0) for bundle in bundles)
            if reserved < self._devices:
                raise RuntimeError(
                    f"the replica has {reserved:g} GPUs, and the engine's parallelism needs {self._devices}"
                )
        await asyncio.sleep(self._start_seconds)

    async def check_health(self) -> None:
        """Raises RuntimeError while the fail file exists: Serve then restarts the replica."""
        if self._fail_file.exists():
            raise RuntimeError(f"the stand-in engine was told to fail: {self._fail_file} exists")

    async def chat(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:
        ask = replies.chat_ask(request.model_dump())
        async for part in self._answer(ask, request.stream, chat=True):
            yield part

    async def completions(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:
        ask = replies.completion_ask(request.model_dump())
        async for part in self._answer(ask, request.stream, chat=False):
            yield part

    async def embeddings(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:
        yield _refusal("embeddings")

    async def transcriptions(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:
        yield _refusal("transcriptions")

    async def score(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:
        yield _refusal("scores")

    async def tokenize(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:
        yield _refusal("token ids")

    async def detokenize(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:
        yield _refusal("text of token ids")

    async def resolve_lora(self, lora_model: DiskMultiplexConfig) -> None:
        """Accept any adapter: answers name it, since the request's model is the adapter's."""

    def routing_stats(self) -> dict[str, Any]:
        return {}

    async def reset_prefix_cache(self) -> None:
        """There is none."""

    async def sleep(self, **kwargs: Any) -> None:
        self._sleeping = True

    async def wakeup(self, **kwargs: Any) -> None:
        self._sleeping = False

    async def is_sleeping(self) -> bool:
        return self._sleeping

    async def pause(self, **kwargs: Any) -> None:
        self._paused = True

    async def resume(self, **kwargs: Any) -> None:
        self._paused = False

    async def is_paused(self) -> bool:
        return self._paused

    async def _answer(self, ask: replies.Ask, stream: bool | None, *, chat: bool) -> AsyncGenerator[Any, None]:
        """In the protocol's form: strings of server-sent events for a stream, else one response object."""
        wanted = ask.prompt_tokens + (ask.limit or 1)
        if self._context is not None and wanted > self._context:
            yield _error(
                f"This model's maximum context length is {self._context} tokens, and the request needs {wanted}.", 400
            )
            return
        async with self._slots:
            if stream:
                events = replies.Stream(ask, chat=chat)
                for event in events.opening():
                    yield event
                async for word in self._paced(ask):
                    yield events.event(word)
                for event in events.closing():
                    yield event
                return
            words = [word async for word in self._paced(ask)]
        if chat:
            yield ChatCompletionResponse(**replies.chat_response(ask, words))
        else:
            yield CompletionResponse(**replies.completion_response(ask, words))

    async def _paced(self, ask: replies.Ask) -> AsyncGenerator[str, None]:
        hold = holds.wanted(ask.prompt)
        for produced, word in enumerate(replies.tokens(ask)):
            if hold is not None and produced == hold.after:
                await holds.wait(hold)
            await asyncio.sleep(self._seconds_per_token)
            yield word


def _refusal(what: str) -> ErrorResponse:
    return _error(f"the stand-in engine makes no {what}", 501)


def _error(message: str, code: int) -> ErrorResponse:
    kind = "BadRequestError" if code == 400 else "NotImplementedError"
    return ErrorResponse(error=ErrorInfo(message=message, type=kind, code=code))
