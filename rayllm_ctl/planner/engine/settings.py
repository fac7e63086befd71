"""The engine's settings of one candidate: what the user set, and vLLM's own defaults for that GPU made explicit.

vLLM picks batch sizes by the GPU that its driver process sees; under Ray that process may see none, so a plan never
leaves them open.
"""

from __future__ import annotations

from rayllm_ctl.model.plan.facts import ModelFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import EngineSettings
from rayllm_ctl.model.spec.service import LLMService, Load
from rayllm_ctl.model.text.lengths import average, parse_lengths
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.engine.items import least_step
from rayllm_ctl.planner.engine.resolved import ResolvedSettings
from rayllm_ctl.planner.request import Request, Shape, Workload
from rayllm_ctl.planner.speed.lengths import mixed

DEFAULT_INPUT_TOKENS = 4096
DEFAULT_OUTPUT_TOKENS = 1024
"""An average request where the user states none: a long prompt and an answer of a page."""

_LONGEST_ROUNDING = 1024


def resolve_settings(
    request: Request, shape: Shape, max_model_len: int, default_sequences: int | None = None
) -> ResolvedSettings:
    """The settings for `shape` at a context of `max_model_len` tokens. default_sequences: max_num_seqs where the user
    states none (None: vLLM's default)."""
    wanted = request.service.engine
    tokens, sequences = request.engine.batch_defaults_for(shape.gpu)
    sequences = default_sequences or sequences
    if wanted.max_num_batched_tokens is not None:
        tokens = wanted.max_num_batched_tokens
    elif not wanted.args.get("enable_chunked_prefill", request.engine.chunked_prefill):
        tokens = max(tokens, max_model_len)
    sequences = min(sequences, tokens) if wanted.max_num_seqs is None else wanted.max_num_seqs
    if wanted.max_num_batched_tokens is None:
        # vLLM's own default stays below the sequences that are asked for, and vLLM does not start with it.
        least = least_step(request.facts, wanted.args)
        tokens = max(sequences, min(tokens, sequences * max_model_len), least)
    utilization = wanted.gpu_memory_utilization
    return ResolvedSettings(
        max_model_len=max_model_len,
        max_num_seqs=sequences,
        max_num_batched_tokens=tokens,
        gpu_memory_utilization=request.engine.gpu_memory_utilization if utilization is None else utilization,
        dtype=resolve_dtype(wanted.dtype, request.facts, shape.gpu, request.engine.release),
        kv_cache_dtype=wanted.kv_cache_dtype or "auto",
        quantization=shape.quantization,
        args=dict(wanted.args),
        tensor=shape.tensor,
        pipeline=shape.pipeline,
        data=shape.data,
        env=wanted.env,
    )


_WITHOUT_FLOAT16 = frozenset({"gemma2", "gemma3", "gemma3_text", "glm4"})


def rejects_float16(facts: ModelFacts, release: tuple[int, int, int]) -> bool:
    """Whether a version does not serve the model in float16."""
    if facts.model_type == "plamo2":
        return vllm_rules.PLAMO2_REJECTS_FLOAT16.holds(release)
    return facts.model_type in _WITHOUT_FLOAT16 and vllm_rules.FLOAT16_IS_REJECTED.holds(release)


def resolve_dtype(wanted: str | None, facts: ModelFacts, gpu: GPU, release: tuple[int, int, int] | None = None) -> str:
    """The dtype that an engine computes in: as asked, else the model's, else the best that the GPU has.

    "auto" on a GPU without bfloat16 (compute capability below 8.0) means float16, and a float32 checkpoint is served
    in 16 bits (vLLM's ModelConfig). Where the config states none, the weights may be in 16 or 32 bits. A model that
    vLLM `release` does not serve in float16 is served in bfloat16, or float32 where the GPU has no other
    (_resolve_auto_dtype). release: None for other engines.
    """
    if wanted not in (None, "auto"):
        return {"half": "float16", "float": "float32"}.get(wanted or "", wanted or "")
    plain = release is None or not rejects_float16(facts, release)
    if has_bfloat16(gpu):
        kept = facts.dtype not in ("float32", "") and (plain or facts.dtype != "float16")
        return facts.dtype if kept else "bfloat16"
    return "float16" if plain else "float32"


def has_bfloat16(gpu: GPU) -> bool:
    """Whether the GPU computes in bfloat16: compute capability 8.0 and up, and all AMD kinds of the catalog."""
    return gpu.compute_capability is None or gpu.compute_capability >= (8, 0)


def engine_settings(request: Request, settings: ResolvedSettings) -> EngineSettings:
    """What the manifests tell the engine, and how it finds the weights."""
    explicit_kv = settings.kv_cache_dtype if settings.kv_cache_dtype != "auto" else None
    return EngineSettings(
        vllm_version=request.engine.version,
        max_model_len=settings.max_model_len,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        dtype=settings.dtype or request.facts.dtype,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        quantization=request.service.engine.quantization or settings.quantization,
        kv_cache_dtype=explicit_kv,
        args=settings.args,
        weights=request.facts.quantization.description if request.facts.quantization else None,
    )


def resolve_load(service: LLMService, max_model_len: int) -> Workload:
    """The load that `service` states, completed with defaults that fit into `max_model_len`."""
    wanted = service.load
    room = max(1, min(max_model_len // 4, max_model_len - (average(wanted.input_tokens) or 0)))
    output = average(wanted.output_tokens) or min(DEFAULT_OUTPUT_TOKENS, room)
    given = average(wanted.input_tokens) or min(DEFAULT_INPUT_TOKENS, max(1, max_model_len - output))
    mix = None
    if isinstance(wanted.input_tokens, str) or isinstance(wanted.output_tokens, str):
        prompts, answers = parse_lengths(wanted.input_tokens or given), parse_lengths(wanted.output_tokens or output)
        mix = mixed(prompts, answers, max_model_len)
        given, output = mix.input_tokens, mix.output_tokens
    stated = any(x is not None for x in (wanted.concurrency, wanted.rate))
    return Workload(
        given,
        output,
        wanted.concurrency,
        wanted.rate,
        wanted.ttft,
        wanted.tpot,
        stated,
        wanted.cached_tokens or 0,
        wanted.accepted_tokens or 1.0,
        mix,
    )


def average_context(load: Load) -> int:
    """The context that an average request of the stated lengths takes at least, in tokens; 0 where none is stated."""
    if load.input_tokens is None and load.output_tokens is None:
        return 0
    return (average(load.input_tokens) or 1) + (average(load.output_tokens) or 1)


def load_context(load: Load) -> int:
    """As `average_context`, but of a distribution for nearly all requests."""
    if load.input_tokens is None and load.output_tokens is None:
        return 0
    return sum(
        1 if one is None else parse_lengths(one).usual_maximum for one in (load.input_tokens, load.output_tokens)
    )


def round_context(tokens: float) -> int:
    """A context length that people recognise: a multiple of 1024 where it has several, else whole blocks of 16."""
    unit = _LONGEST_ROUNDING if tokens >= 4 * _LONGEST_ROUNDING else 16
    return int(tokens) // unit * unit
