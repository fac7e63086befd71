"""What the source in serving/ does not say of itself: of which type expressions are, and texts of a library.

A path is one that Library.find takes: `module.Class()` is an instance. Several paths: the object has what any of them
has. `def NAME` is a method that a library calls by its name alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_HANDLE = "ray.serve.handle.DeploymentHandle()"
_STAGES = "ray.llm._internal.batch.stages"
_MODELS = "ray.llm._internal.serve.core.configs.openai_api_models"
_MODEL = ("transformers.PreTrainedModel()", "transformers.generation.utils.GenerationMixin()")
_CONFIG = "transformers.generation.configuration_utils.GenerationConfig()"
_CACHE = "transformers.cache_utils.DynamicCache()"
_LAYER = "transformers.cache_utils.DynamicLayer()"
_TOKENIZER = (
    "transformers.tokenization_utils_base.PreTrainedTokenizerBase()",
    "transformers.tokenization_utils_tokenizers.TokenizersBackend()",
)

TYPES: Final[Mapping[str, Mapping[str, str | tuple[str, ...]]]] = {
    "api.py": {
        "error.cause": "ray.exceptions.RayTaskError().cause",
        "error.message": f"{_MODELS}.OpenAIHTTPException().message",
    },
    "batch/inference/pipeline.py": {
        "context": "ray.data.DataContext()",
        "_processor(settings, ledger)(dataset)": "ray.data.Dataset()",
        "dataset": "ray.data.Dataset()",
        "processor": "ray.llm._internal.batch.processor.base.Processor()",
    },
    "errors.py": {
        "error.cause": "ray.exceptions.RayTaskError().cause",
        "part.cause": "ray.exceptions.RayTaskError().cause",
    },
    "gateway/body/tokens.py": {"tokenizer": _TOKENIZER, "self._tokenizer": _TOKENIZER},
    "generation/choosing.py": {"model": _MODEL, "config": _CONFIG},
    "generation/loading.py": {
        "model": _MODEL,
        "model.generation_config": _CONFIG,
        "model.config": "transformers.configuration_utils.PreTrainedConfig()",
        "tokenizer": _TOKENIZER,
    },
    "generation/model.py": {"self._model": _MODEL, "model": _MODEL, "self._cached": _CONFIG, "batch.cache": _CACHE},
    "generation/prompts.py": {"tokenizer": _TOKENIZER, "self._tokenizer": _TOKENIZER},
    "generation/rows.py": {
        "self.cache": _CACHE,
        "batch.cache": _CACHE,
        "layer": _LAYER,
        "first": (_LAYER, "transformers.cache_utils.DynamicSlidingWindowLayer()"),
        "second": (_LAYER, "transformers.cache_utils.DynamicSlidingWindowLayer()"),
    },
    "ingress.py": {
        "deployment": "ray.serve.deployment.Deployment()",
        "first": f"{_MODELS}.ErrorResponse()",
        "own": "ray.serve.context.ReplicaContext()",
        "def __serve_build_asgi_app__": "ray.serve._private.replica.SERVE_BUILD_ASGI_APP_METHOD",
        "def reconfigure": "ray.serve._private.constants.RECONFIGURE_METHOD",
    },
    "ray_router.py": {
        "handle._router": "ray.serve._private.router.CurrentLoopRouter()",
        "router": "ray.serve._private.router.AsyncioRouter()",
        "metrics": "ray.serve._private.router.RouterMetricsManager()",
        "known": "ray.serve._private.request_router.request_router.RequestRouter()",
        "replica": "ray.serve._private.request_router.replica_wrapper.RunningReplica()",
        "self._last": _HANDLE,
        "self._response": "ray.serve.handle.DeploymentResponseGenerator()",
        "result": "ray.serve._private.replica_result.ActorReplicaResult()",
        "result.to_object_ref_gen()": "ray._private.object_ref_generator.ObjectRefGenerator()",
        "result.to_object_ref_gen()._generator_ref.task_id()": "ray.includes.unique_ids.TaskID()",
    },
    "routes.py": {"handle": _HANDLE},
    "serve_load.py": {
        "self._ingress": _HANDLE,
        "ingress": _HANDLE,
        "answers": "ray.serve.handle.DeploymentBroadcastResponse()",
    },
}

_ENGINE_STAGE = f"{_STAGES}.vllm_engine_stage"
_OUTPUT = f"{_ENGINE_STAGE}.vLLMOutputData()"

TEXTS: Final[Mapping[str, Mapping[str, str]]] = {
    "batch/inference/columns.py": {"__inference_error__": f"{_ENGINE_STAGE}#__inference_error__"},
    "batch/ending.py": {
        "RAY_JOB_CONFIG_JSON_ENV_VAR": "ray._private.runtime_env.constants#RAY_JOB_CONFIG_JSON_ENV_VAR",
    },
    "batch/inference/engine.py": {
        "request_id": f"{_ENGINE_STAGE}#request_id",
        "sampling_params": f"{_ENGINE_STAGE}#sampling_params",
        "pooling_params": f"{_ENGINE_STAGE}#pooling_params",
        "tokenized_prompt": f"{_ENGINE_STAGE}#tokenized_prompt",
        **{
            name: f"{_OUTPUT}.{name}"
            for name in ("embeddings", "generated_text", "num_generated_tokens", "num_input_tokens")
        },
    },
    "batch/inference/pipeline.py": {
        "ChatTemplateStage": f"{_STAGES}.chat_template_stage.ChatTemplateStage",
        "vLLMEngineStage": f"{_ENGINE_STAGE}.vLLMEngineStage",
    },
    "logs.py": {"serve_access_log": "ray.serve._private.constants#serve_access_log"},
    "transformers_engine.py": {
        "placement_group_bundles": "ray.llm._internal.serve.core.server.llm_server#placement_group_bundles",
        "placement_group_strategy": "ray.llm._internal.serve.core.server.llm_server#placement_group_strategy",
        "ray_actor_options": "ray.llm._internal.serve.core.server.llm_server#ray_actor_options",
    },
}
"""Keys, columns and attributes that our source writes as strings, and where a library has them. `module#text`: the
module contains the same string."""
