"""Which class of vLLM serves a model: one of its own, or its Transformers backend, which runs the library's code.

The backend is asked for (`model_impl=transformers`), or taken where vLLM has no class for an architecture
(model_executor/models/registry.py, read in 0.8.5 to 0.33). By its documentation it has full and sliding attention, and
it raises for MXFP4 (models/transformers/base.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.plan.engine_facts import EngineFacts
from rayllm_ctl.model.plan.facts import ModelFacts, StateCache
from rayllm_ctl.model.plan.plan import Reason
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.engine.refusal import Refusal, changed_engine
from rayllm_ctl.planner.request import Request

_GENERATING = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")
_POOLING = (
    "ForTextEncoding", "EmbeddingModel", "ForSequenceClassification", "ForTokenClassification",
    "ForAudioClassification", "ForImageClassification", "ForVideoClassification", "ClassificationModel",
    "ForRewardModeling", "RewardModel", "Model",
)  # fmt: skip
"""Ends of names by which vLLM takes a model for one that generates text, or for a pooling model (config/model.py
_SUFFIX_TO_DEFAULTS, in this order), unless its registry lists it."""


def runs_on_backend(service: LLMService, facts: ModelFacts, engine: EngineFacts) -> bool:
    """Whether vLLM's Transformers backend runs the model, if anything does."""
    asked = service.engine.args.get("model_impl") == "transformers"
    return asked or (bool(engine.architectures) and facts.architecture not in engine.architectures)


def architecture_problems(request: Request) -> Iterator[Refusal]:
    """Why vLLM does not generate text with the model's architecture."""
    name, engine = request.facts.architecture, request.engine
    listed, impl = name in engine.architectures, request.service.engine.args.get("model_impl")
    if not runs_on_backend(request.service, request.facts, engine):
        return
    if not listed and not name.endswith(_GENERATING) and name.endswith(_POOLING):
        message = f"vLLM runs {name} as a pooling model (embeddings, classification or rewards), which writes no text"
        yield Refusal(Reason("architecture-pooling", message))
    elif impl == "transformers":
        yield from _backend_problems(request)
    elif name in engine.removed:
        last = engine.removed[name]
        message = f"vLLM {engine.version} does not support {name}, which was removed after {last}"
        yield Refusal(Reason("architecture-removed", message, f"--vllm-version {last}"))
    elif request.newest and name in request.newest.architectures:
        message = f"vLLM {engine.version} does not support the architecture {name}"
        yield Refusal(Reason("architecture-unknown", message, f"--vllm-version {request.newest.version}"))
    elif "model_impl" not in engine.arguments or impl not in (None, "auto"):
        message = f"vLLM {engine.version} does not support the architecture {name}"
        yield Refusal(Reason("architecture-unknown", message))
    else:
        yield from _backend_problems(request)


def _backend_problems(request: Request) -> Iterator[Refusal]:
    """What the Transformers backend does not have."""
    facts, own = (
        request.facts,
        changed_engine(args={key: value for key, value in request.service.engine.args.items() if key != "model_impl"}),
    )
    instead = ("without model_impl", own) if facts.architecture in request.engine.architectures else ("", None)
    quantized = facts.quantization
    if quantized is not None and quantized.method == "mxfp4":
        reason = Reason("backend-quantization", "vLLM's Transformers backend does not support MXFP4 weights")
        yield Refusal(reason, *instead)
    if _keeps_states(facts):
        message = "vLLM's Transformers backend supports full and sliding attention, and no layers that keep a state"
        yield Refusal(Reason("backend-attention", message), *instead)


def _keeps_states(facts: ModelFacts) -> bool:
    layers = {id(layer): layer for layer in facts.layers}.values()
    return any(isinstance(cache, StateCache) for layer in layers for cache in layer.caches)


def model_caveats(service: LLMService, facts: ModelFacts, engine: EngineFacts) -> Iterator[Reason]:
    """What is not known of a model, so that nothing fits for sure."""
    if facts.assumed:
        yield Reason("model-read-generically", "; ".join(facts.assumed))
    if not runs_on_backend(service, facts, engine):
        return
    latent = "; latent attention may keep the keys and values of every head" if "mla" in facts.traits else ""
    if facts.architecture in engine.architectures:
        message = "vLLM's Transformers backend runs the model, and its memory is taken as that of vLLM's own class"
    else:
        message = (
            f"vLLM {engine.version} has no class for {facts.architecture}: its Transformers backend runs the model if "
            "the Transformers library or the code of the checkpoint (trust_remote_code) has one that is compatible"
        )
    yield Reason("transformers-backend", message + latent)
