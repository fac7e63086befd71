"""The Transformers engine behind Ray Serve LLM's protocols: an LLMEngine, and the server of its deployment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from ray.llm._internal.serve.core.configs.llm_config import DiskMultiplexConfig
from ray.llm._internal.serve.core.configs.openai_api_models import (
    ChatCompletionResponse,
    CompletionResponse,
    DetokenizeResponse,
    ErrorInfo,
    ErrorResponse,
    TokenizeResponse,
)
from ray.llm._internal.serve.core.engine.protocol import LLMEngine
from ray.llm._internal.serve.core.server.llm_server import LLMServer
from ray.serve.deployment import Application
from ray.serve.llm import LLMConfig, build_llm_deployment
from ray.util import metrics

from rayllm_ctl.serving import logs
from rayllm_ctl.serving.gateway.errors import Rejected
from rayllm_ctl.serving.gateway.reader import SettingsError, fields
from rayllm_ctl.serving.generation.batcher import Batcher
from rayllm_ctl.serving.generation.generator import GenerationFailed, Generator
from rayllm_ctl.serving.generation.parameters import Parameters, read_parameters
from rayllm_ctl.serving.generation.prompts import Prompts
from rayllm_ctl.serving.generation.replies import Reply, failure_event
from rayllm_ctl.serving.generation.settings import read_settings

logger = logging.getLogger(logs.GENERATION)

KEY: Final = "transformers"
"""Of the settings: in an application's args, and in the experimental_configs of its LLMConfig."""

METRICS_SECONDS: Final = 5.0
"""How often figures are set that Ray exports about every ten seconds."""

_ARGS: Final = {"model_loading_config", "accelerator_type", "accelerator_config", "deployment_config", KEY}


def build(args: dict[str, Any]) -> Application:
    """The application of one model; `args` is an LLMConfig with the key `transformers`. Raises SettingsError."""
    given = dict(fields(args, "args", _ARGS))
    settings = given.pop(KEY)
    read_settings(settings)
    source = given.get("model_loading_config", {}).get("model_source")
    if isinstance(source, str) and "://" in source:
        raise SettingsError(f"model_loading_config.model_source: {source} is neither a directory nor a hub repository")
    config = LLMConfig(**given, server_cls=TransformersServer, experimental_configs={KEY: settings})
    # The name that deployments of models have, whatever their engine.
    return build_llm_deployment(config, name_prefix=f"{LLMServer.__name__}:")


class TransformersEngine(LLMEngine):  # type: ignore[misc]
    """Generates with a model of the transformers library in this process."""

    def __init__(self, llm_config: LLMConfig) -> None:
        logs.to_serve(logs.GENERATION)
        self._config = llm_config
        self._settings = read_settings(llm_config.experimental_configs[KEY])
        self._reporting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the model, beside the event loop. Raises LoadError."""
        # torch and transformers are there where an engine is started, and take seconds to import.
        self._prompts, self._batcher, self._generator = await asyncio.to_thread(self._load)
        self._batcher.start()
        self._reporting = asyncio.create_task(self._report())

    def _load(self) -> tuple[Prompts, Batcher, Generator]:
        from rayllm_ctl.serving.generation.loading import load
        from rayllm_ctl.serving.generation.model import TorchRunner

        settings, source = self._settings, self._config.model_loading_config.model_source or self._config.model_id
        loaded = load(source, settings)
        prompts = Prompts(loaded.tokenizer, loaded.vocabulary, settings.max_model_len)
        runner = TorchRunner(loaded.model, loaded.device, settings.max_model_len, loaded.end_tokens)
        batcher = Batcher(runner, settings.max_batch_size)
        logger.info("Loaded %s (%s)", source, type(loaded.model).__name__)
        return prompts, batcher, Generator(batcher, prompts.decode, loaded.end_tokens)

    async def check_health(self) -> None:
        """RuntimeError if the thread that generates has ended: Serve then replaces the replica."""
        if not self._batcher.alive:
            raise RuntimeError("the thread that generates has ended; the log of this replica says why")

    async def shutdown(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()
            self._batcher.stop()

    async def chat(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:  # noqa: ARG002
        async with aclosing(self._answer(request, chat=True)) as parts:
            async for part in parts:
                yield part

    async def completions(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:  # noqa: ARG002
        async with aclosing(self._answer(request, chat=False)) as parts:
            async for part in parts:
                yield part

    async def tokenize(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:  # noqa: ARG002
        body = request.model_dump(exclude_unset=True)
        try:
            tokens = await self._prompts.chat(body) if "messages" in body else (await self._prompts.texts(body))[0]
        except Rejected as rejected:
            yield _rejection(rejected)
            return
        names = self._prompts.names(tokens) if body.get("return_token_strs") else None
        length = self._settings.max_model_len
        yield TokenizeResponse(count=len(tokens), max_model_len=length, tokens=tokens, token_strs=names)

    async def detokenize(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:  # noqa: ARG002
        try:
            yield DetokenizeResponse(prompt=await self._prompts.detokenized(request.tokens))
        except Rejected as rejected:
            yield _rejection(rejected)

    async def embeddings(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:  # noqa: ARG002
        yield _unsupported("embeddings")

    async def score(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:  # noqa: ARG002
        yield _unsupported("scores")

    async def transcriptions(self, request: Any, raw_request_info: Any = None) -> AsyncGenerator[Any, None]:  # noqa: ARG002
        yield _unsupported("transcriptions")

    async def resolve_lora(self, lora_model: DiskMultiplexConfig) -> None:
        raise NotImplementedError(f"the Transformers engine has no LoRA adapters: {lora_model.model_id}")

    def routing_stats(self) -> dict[str, Any]:
        return {}

    async def reset_prefix_cache(self) -> None:
        """There is none."""

    async def _answer(self, request: Any, *, chat: bool) -> AsyncGenerator[Any, None]:
        """In the protocol's form: strings of server-sent events for a stream, else one response object."""
        body = request.model_dump(exclude_unset=True)
        field = "messages" if chat else "prompt"
        try:
            parameters = read_parameters(body, self._settings, chat=chat)
            prompts = [await self._prompts.chat(body)] if chat else await self._prompts.texts(body)
            rooms = [self._prompts.room(prompt, parameters, field) for prompt in prompts]
        except Rejected as rejected:
            yield _rejection(rejected)
            return
        reply = Reply(parameters.model, sum(map(len, prompts)), len(prompts) * parameters.n, chat=chat)
        begun = False
        try:
            async with aclosing(self._generator.generate(prompts, rooms, parameters)) as outputs:
                async for output in outputs:
                    reply.add(output)
                    if not parameters.stream:
                        continue
                    for event in reply.opening() if not begun else ():
                        yield event
                    begun = True
                    yield reply.event(output)
        except GenerationFailed as failed:
            failure = failed.failure
            yield failure_event(failure) if begun else _error(failure.message, failure.status, failure.code)
            return
        for last in _endings(reply, parameters, chat=chat):
            yield last

    async def _report(self) -> None:
        """Keep the metrics of this replica up to date."""
        running = metrics.Gauge("rayllm_generation_running", "Sequences that are generated", ("model",))
        waiting = metrics.Gauge("rayllm_generation_waiting", "Sequences that wait to be generated", ("model",))
        tokens = metrics.Counter("rayllm_generation_tokens", "Generated tokens", ("model",))
        tags, counted = {"model": self._config.model_id}, 0
        while True:
            figures = self._batcher.figures()
            running.set(figures.running, tags)
            waiting.set(figures.waiting, tags)
            if figures.tokens > counted:
                tokens.inc(figures.tokens - counted, tags)
                counted = figures.tokens
            await asyncio.sleep(METRICS_SECONDS)


class TransformersServer(LLMServer):  # type: ignore[misc]
    """Ray's server with this engine. Its replica is one actor that has all GPUs itself, and no placement group."""

    _default_engine_cls = TransformersEngine

    @classmethod
    def get_deployment_options(cls, llm_config: LLMConfig) -> dict[str, Any]:
        """Those of Ray, with the resources of the settings."""
        options: dict[str, Any] = super().get_deployment_options(llm_config)
        for name in ("placement_group_bundles", "placement_group_strategy"):
            options.pop(name, None)
        settings = read_settings(llm_config.experimental_configs[KEY])
        actor = options["ray_actor_options"]
        actor |= {"num_cpus": settings.cpus, "num_gpus": settings.gpus}
        if settings.gpus and llm_config.accelerator_type:
            actor["accelerator_type"] = llm_config.accelerator_type
        return options


def _endings(reply: Reply, parameters: Parameters, *, chat: bool) -> list[Any]:
    if parameters.stream:
        return list(reply.closing(usage=parameters.include_usage))
    kind = ChatCompletionResponse if chat else CompletionResponse
    return [kind(**reply.whole())]


def _unsupported(what: str) -> ErrorResponse:
    return _error(f"Models of the Transformers engine have no {what}", 400, "unsupported_endpoint")


def _rejection(rejected: Rejected) -> ErrorResponse:
    reason = rejected.rejection
    return _error(reason.message, reason.status, reason.code, reason.param)


def _error(message: str, status: int, code: str, param: str | None = None) -> ErrorResponse:
    """Of the protocol's fields `code` is the status; `type` has the word for programs."""
    return ErrorResponse(error=ErrorInfo(message=message, type=code, param=param, code=status))
