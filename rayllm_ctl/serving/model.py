"""The Serve application of one model. Ray's `build_openai_app` would put an ingress in front of it."""

from __future__ import annotations

from typing import Any

from ray.serve.deployment import Application
from ray.serve.llm import LLMConfig, build_llm_deployment

from rayllm_ctl.serving.adapters import with_adapters


def build(args: dict[str, Any]) -> Application:
    """The application; `args` is an LLMConfig, whose engine_kwargs may have `lora_modules`.

    With the key `transformers` in place of engine_kwargs the model is served by the Transformers engine, not by vLLM.
    Serve's builders take exactly one parameter.
    """
    if "transformers" in args:
        from rayllm_ctl.serving import transformers_engine

        return transformers_engine.build(args)
    return build_llm_deployment(LLMConfig(**with_adapters(args)))
