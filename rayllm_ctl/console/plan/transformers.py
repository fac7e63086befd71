"""The plan of a model on the Transformers engine as text: its devices, and the engine's settings."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.console.rows import dimmed
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.kube.quantities import gib
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.plan.transformers import DevicePlan, TransformersPlan


def device_lines(plan: TransformersPlan, style: Printer) -> Iterator[str]:
    """Use of each device's memory."""
    below = dimmed("", style)
    for one in plan.devices:
        name = "CPU memory" if one.device == "cpu" else f"GPU {one.device}"
        layers = f"{one.layers} layer{'' if one.layers == 1 else 's'}"
        if one.device == "cpu":
            yield f"{dimmed(name, style)}{layers}, {gib(one.weights_bytes)} GiB of at most {gib(one.total_bytes)}"
        else:
            yield f"{dimmed(name, style)}{layers}: {_parts(one)}"
            yield f"{below}{_rest(one)}"
    if plan.kv_request_bytes:
        yield f"{below}the cache of one request at full length takes {gib(plan.kv_request_bytes)} GiB"


def devices_summary(plan: TransformersPlan) -> str:
    """The fullest GPU in one line; empty if there is none."""
    gpus = [one for one in plan.devices if one.device != "cpu"]
    if not gpus:
        return ""
    full = min(gpus, key=lambda one: one.total_bytes - one.needed_bytes)
    return f"GPU {full.device} {gib(full.total_bytes)} GiB: {_parts(full)} · {_rest(full)}"


def limits(plan: TransformersPlan) -> str:
    requests = f"{plan.max_num_seqs} request{'' if plan.max_num_seqs == 1 else 's'} at once"
    return f"context {plan.max_model_len:,} tokens · {requests}"


def layout(plan: Plan) -> str:
    """The layout of a replica."""
    assert plan.transformers is not None
    gpus = plan.transformers.gpus
    if gpus == 0:
        return "one process"
    return f"layers on {gpus} GPU{'' if gpus == 1 else 's'} of one pod"


def engine(plan: TransformersPlan) -> str:
    parts = ["Transformers", plan.dtype]
    parts += [plan.quantization] if plan.quantization else []
    parts += [f"{plan.weights_bytes / 2**30:.1f} GiB of weights"] if plan.weights_bytes else []
    if plan.max_memory:
        parts.append("max_memory " + ", ".join(f"{device} {size}" for device, size in plan.max_memory.items()))
    parts += ["code of the repository"] if plan.trust_remote_code else []
    return " · ".join(parts)


def _parts(one: DevicePlan) -> str:
    parts = [("weights", one.weights_bytes), ("cache", one.kv_cache_bytes), ("activations", one.activation_bytes)]
    parts += [("CUDA", one.context_bytes)]
    parts += [("for a layer of the CPU", one.reserved_bytes)] if one.reserved_bytes else []
    return " · ".join(f"{name} {gib(size)}" for name, size in parts)


def _rest(one: DevicePlan) -> str:
    left = one.total_bytes - one.needed_bytes
    if left < 0:
        return f"insufficient: {gib(-left)} GiB more than its {gib(one.total_bytes)}"
    return f"{gib(left)} of {gib(one.total_bytes)} GiB left, {gib(one.margin_bytes)} of it kept free"
