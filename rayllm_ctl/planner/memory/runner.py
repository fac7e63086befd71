"""Which of vLLM's model runners serves a model: they profile the sampler and CUDA graphs differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.model.plan.engine_facts import EngineFacts
from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.memory.drafts import as_mapping, speculative_method
from rayllm_ctl.planner.memory.engine import Release

_SECOND_ONLY = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark"})
_FIRST_ONLY = frozenset({"suffix", "custom_class"})
_SPARSE_ON_ROCM = frozenset({"DeepseekV32ForCausalLM", "DeepseekV4ForCausalLM"})


def uses_second_runner(facts: ModelFacts, gpu: GPU, engine: EngineFacts, settings: ResolvedSettings) -> bool:
    """Whether vLLM's second model runner serves a model with these settings.

    VLLM_USE_V2_MODEL_RUNNER decides; else the version's rule for the architecture, and the first runner where the
    second does not support what is asked.
    """
    asked = settings.env.get("VLLM_USE_V2_MODEL_RUNNER", "")
    if asked in ("0", "1") and vllm_rules.RUNNER_IS_CHOSEN_BY_VARIABLE.holds(engine.release):
        return asked == "1"
    default = engine.uses_second_runner(
        facts.architecture,
        moe=facts.moe,
        hybrid="hybrid" in facts.traits,
        quantized=facts.quantization is not None or settings.quantization is not None,
    )
    if gpu.vendor == "amd" and facts.architecture in _SPARSE_ON_ROCM:
        default = default and not vllm_rules.SPARSE_LATENT_ON_ROCM_TAKES_THE_FIRST.holds(engine.release)
    return default and not any(_unsupported(engine.release, settings))


def _unsupported(release: Release, settings: ResolvedSettings) -> Iterator[bool]:
    """What the second runner does not support, of what can be told from the arguments."""
    args = settings.args
    drafting = as_mapping(args.get("speculative_config"))
    method = speculative_method(args)
    if method and method not in _SECOND_ONLY:
        yield method in _unsupported_methods(release) or not vllm_rules.SECOND_RUNNER_DRAFTS.holds(release)
    yield drafting.get("parallel_drafting") is True and method not in ("dflash", "dspark")
    if method == "eagle3" and settings.pipeline > 1:
        yield not vllm_rules.SECOND_RUNNER_DRAFTS_IN_STAGES.holds(release)
    if _stated(args, "logits_processors"):
        yield not vllm_rules.SECOND_RUNNER_TAKES_LOGITS_PROCESSORS.holds(release)
    if args.get("enable_prompt_embeds") is True:
        yield not vllm_rules.SECOND_RUNNER_TAKES_PROMPT_EMBEDS.holds(release)
    if args.get("kv_sharing_fast_prefill") is True:
        yield not vllm_rules.SECOND_RUNNER_SHARES_KV.holds(release)
    yield args.get("enable_dbo") is True
    if args.get("enable_return_routed_experts") is True:
        yield not vllm_rules.SECOND_RUNNER_RETURNS_EXPERTS.holds(release)
    if args.get("logprobs_mode") in ("raw_logits", "processed_logits"):
        yield not vllm_rules.SECOND_RUNNER_GIVES_LOGITS.holds(release)


def _unsupported_methods(release: Release) -> frozenset[str]:
    """Methods of speculative decoding that only the first runner has."""
    named = _FIRST_ONLY
    if not vllm_rules.SECOND_RUNNER_DRAFTS_BY_NGRAM.holds(release):
        named = named | {"ngram", "ngram_gpu"}
    if not vllm_rules.SECOND_RUNNER_DRAFTS_BY_HEADS.holds(release):
        named = named | {"medusa", "mlp_speculator"}
    return named if vllm_rules.SECOND_RUNNER_DRAFTS_BY_MODEL.holds(release) else named | {"draft_model"}


def _stated(args: Mapping[str, Any], name: str) -> bool:
    return bool(args.get(name))
