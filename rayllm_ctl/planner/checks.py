"""Contradictions between what a user asks and what the model, the GPU or the engine's version can do.

Each is refused before memory is looked at, with the reason. What a version knows and needs is the catalog's data.
"""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.hardware import GPU
from rayllm_ctl.model.names import nearest
from rayllm_ctl.model.plan import Reason
from rayllm_ctl.planner.request import Request, Shape
from rayllm_ctl.planner.settings import has_bfloat16, resolve_dtype

_FP8_CACHE_CAPABILITY = (8, 0)
"""The first capability with an attention kernel for an fp8 KV cache: FlashInfer's (v1/attention/backends, 0.29)."""

_NVFP4_CACHE_CAPABILITY = (10, 0)


def request_problems(request: Request) -> Iterator[Reason]:
    """What contradicts itself whatever the GPU: context, architecture, quantization, arguments of this version."""
    wanted, facts = request.service.engine, request.facts
    if wanted.max_model_len is not None and wanted.max_model_len > facts.max_model_len and not _stretched(request):
        yield Reason(
            "context-above-model",
            f"a context of {wanted.max_model_len:,} tokens is above the model's {facts.max_model_len:,}",
            f"--max-model-len {facts.max_model_len}",
        )
    yield from _architecture(request)
    yield from _quantization(request)
    yield from _words(request)


def gpu_problems(request: Request, shape: Shape) -> Iterator[Reason]:
    """What this kind of GPU, or so many of it, cannot do: a dtype, a quantization, a KV cache, pipeline stages."""
    gpu, wanted = shape.gpu, request.service.engine
    if shape.pipeline > 1 and request.facts.architecture in request.engine.no_pipeline:
        yield Reason(
            "no-pipeline-parallelism",
            f"{request.facts.architecture} cannot be split into pipeline stages in vLLM {request.engine.version}",
            "--pp 1",
        )
    if wanted.dtype == "bfloat16" and not has_bfloat16(gpu):
        yield Reason(
            "dtype-needs-newer-gpu",
            f"{gpu.name} (compute capability {_capability(gpu)}) has no bfloat16; that begins with 8.0",
            f"--dtype {resolve_dtype(None, request.facts, gpu)}",
        )
    yield from _quantization_on(request, gpu)
    cache = wanted.kv_cache_dtype or "auto"
    least = _NVFP4_CACHE_CAPABILITY if "nvfp4" in cache else _FP8_CACHE_CAPABILITY if "fp8" in cache else (0, 0)
    if gpu.compute_capability is not None and gpu.compute_capability < least:
        yield Reason(
            "kv-cache-dtype-needs-newer-gpu",
            f"a KV cache of {cache} needs compute capability {least[0]}.{least[1]}; {gpu.name} has {_capability(gpu)}",
            "--kv-cache-dtype auto",
        )


def _architecture(request: Request) -> Iterator[Reason]:
    name, engine = request.facts.architecture, request.engine
    if name in engine.architectures or not engine.architectures:
        return
    if name in engine.removed:
        last = engine.removed[name]
        yield Reason(
            "architecture-removed",
            f"{name} was removed from vLLM after {last}; the plan is for {engine.version}",
            f"--vllm-version {last}",
        )
    else:
        yield Reason("architecture-unknown", f"vLLM {engine.version} does not know the architecture {name}")


def _quantization(request: Request) -> Iterator[Reason]:
    """A method that this version lacks, or one that is not the checkpoint's."""
    methods = request.engine.quantization
    own, wanted = request.facts.quantization, request.service.engine.quantization
    for method in {own.method if own else None, wanted} - {None}:
        if methods and method not in methods and method is not None:
            close = nearest(method, methods)
            hint = f"--quantization {close}" if close and method == wanted else ""
            yield Reason("quantization-unknown", f"vLLM {request.engine.version} has no quantization {method!r}", hint)
            return
    if own and wanted and _family(own.method) != _family(wanted):
        yield Reason(
            "quantization-contradicts-checkpoint",
            f"the checkpoint is quantized with {own.method}; {wanted} cannot be laid over it",
            f"--quantization {own.method}",
        )
    if wanted and not own and _family(wanted) in _CHECKPOINT_ONLY:
        yield Reason(
            "quantization-needs-checkpoint",
            f"{wanted} needs a checkpoint that was quantized so; this one is not quantized",
            "--quantization fp8",
        )


_CHECKPOINT_ONLY = frozenset(
    {"awq", "gptq", "compressed-tensors", "modelopt", "modelopt_fp4", "mxfp4", "fbgemm_fp8", "quark", "moe_wna16"}
)
"""Methods that only read what a checkpoint holds; the others quantize while loading."""


def _family(method: str) -> str:
    """A method without the name of its kernel (awq_marlin and auto_awq read the same checkpoints as awq)."""
    return method.removeprefix("auto_").removesuffix("_marlin").replace("-", "_").replace("compressed_", "compressed-")


def _quantization_on(request: Request, gpu: GPU) -> Iterator[Reason]:
    capability = gpu.compute_capability
    own, wanted = request.facts.quantization, request.service.engine.quantization
    if capability is None:
        return
    for method in (own.method if own else None, wanted):
        least = request.engine.quantization.get(method or "")
        if least is not None and capability < least:
            yield Reason(
                "quantization-needs-newer-gpu",
                f"{method} needs compute capability {least[0]}.{least[1]}; {gpu.name} has {_capability(gpu)}",
            )
            return
    if wanted and not own and wanted.startswith("fp8") and "fp8" not in gpu.flops:
        yield Reason(
            "quantization-needs-newer-gpu",
            f"{gpu.name} (compute capability {_capability(gpu)}) does not compute in fp8, which begins with 8.9; "
            "an AWQ, GPTQ or FP8 checkpoint of the model runs there with 16-bit arithmetic",
        )


def _words(request: Request) -> Iterator[Reason]:
    """Names that this version does not have: engine arguments, KV cache types."""
    wanted, engine = request.service.engine, request.engine
    for name in wanted.args:
        if engine.arguments and name not in engine.arguments:
            close = nearest(name.replace("-", "_"), engine.arguments)
            meant = f"; did you mean {close}?" if close else ""
            yield Reason(
                "unknown-engine-argument",
                f"vLLM {engine.version} has no engine argument {name!r}{meant}",
                f"--engine-arg {close}={wanted.args[name]}" if close else "",
            )
    if wanted.kv_cache_dtype and engine.kv_cache_dtypes and wanted.kv_cache_dtype not in engine.kv_cache_dtypes:
        close = nearest(wanted.kv_cache_dtype, engine.kv_cache_dtypes) or "auto"
        yield Reason(
            "kv-cache-dtype-unknown",
            f"vLLM {engine.version} has no KV cache type {wanted.kv_cache_dtype!r}",
            f"--kv-cache-dtype {close}",
        )


def _stretched(request: Request) -> bool:
    """Whether the user changed the model's own limit (rope scaling, or vLLM's switch for longer contexts)."""
    args = request.service.engine.args
    allowed = request.service.engine.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") == "1"
    return allowed or any(name in args for name in ("hf_overrides", "rope_scaling"))


def _capability(gpu: GPU) -> str:
    return ".".join(map(str, gpu.compute_capability)) if gpu.compute_capability else "unknown"
