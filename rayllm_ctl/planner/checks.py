"""Contradictions between what a user asks and what the model, the GPU or the engine's version can do.

Each is refused before memory is looked at, with the reason. The figures of what a version knows are the catalog's.
"""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.hardware import GPU
from rayllm_ctl.model.names import nearest
from rayllm_ctl.model.plan import Reason
from rayllm_ctl.planner.request import Request, Shape
from rayllm_ctl.planner.settings import has_bfloat16, resolve_dtype

_DTYPES = ("auto", "bfloat16", "float16", "half", "float32", "float")


def request_problems(request: Request) -> Iterator[Reason]:
    """What contradicts itself whatever the GPU: context, utilization, architecture and arguments of this version."""
    wanted, facts = request.service.engine, request.facts
    if wanted.max_model_len is not None and wanted.max_model_len > facts.max_model_len and not _stretched(request):
        yield Reason(
            "context-above-model",
            f"a context of {wanted.max_model_len:,} tokens is above the model's {facts.max_model_len:,}",
            f"--max-model-len {facts.max_model_len}",
        )
    if wanted.gpu_memory_utilization is not None and not 0 < wanted.gpu_memory_utilization <= 1:
        yield Reason(
            "utilization-out-of-range",
            f"gpu_memory_utilization {wanted.gpu_memory_utilization:g} is not above 0 and at most 1",
            f"--gpu-memory-utilization {request.engine.gpu_memory_utilization:g}",
        )
    if wanted.dtype is not None and wanted.dtype not in _DTYPES:
        close = nearest(wanted.dtype, _DTYPES) or "auto"
        known = ", ".join(_DTYPES)
        yield Reason("dtype-unknown", f"dtype {wanted.dtype!r} is none that vLLM takes ({known})", f"--dtype {close}")


def gpu_problems(request: Request, shape: Shape) -> Iterator[Reason]:
    """What this kind of GPU cannot do: a dtype, a quantization."""
    gpu = shape.gpu
    dtype = request.service.engine.dtype
    if dtype == "bfloat16" and not has_bfloat16(gpu):
        yield Reason(
            "dtype-needs-newer-gpu",
            f"{gpu.name} (compute capability {_capability(gpu)}) has no bfloat16; that begins with 8.0",
            f"--dtype {resolve_dtype(None, request.facts, gpu)}",
        )


def _stretched(request: Request) -> bool:
    """Whether the user changed the model's own limit (rope scaling, or vLLM's switch for longer contexts)."""
    args = request.service.engine.args
    allowed = request.service.engine.env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0") == "1"
    return allowed or any(name in args for name in ("hf_overrides", "rope_scaling"))


def _capability(gpu: GPU) -> str:
    return ".".join(map(str, gpu.compute_capability)) if gpu.compute_capability else "unknown"
