"""A plan for people: what it is, where the memory of a GPU goes, the limits, and why."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.deployment import Deployment, PodPlacement, Runtime
from rayllm_ctl.model.plan import Band, Cost, MemoryPlan, Plan, Throughput, UnknownCost
from rayllm_ctl.model.podcontexts import lost
from rayllm_ctl.model.quantities import GIB, format_duration, gib

_WIDTH = 100
_BAR = 64
_LABEL = 11
_SHADES = {"weights": "█", "activations": "▓", "graphs": "▒", "non-torch": "░", "KV cache": "▚", "left": "·"}
_MARKS = {"fits": "ok", "risky": "warning", "does-not-fit": "error", "invalid": "error"}


def summary(plan: Plan) -> list[str]:
    """The plan in three lines, for commands that go on."""
    lines = [f"{plan.model}  {_engine_type(plan)}{_where(plan)}", _limits(plan)]
    if plan.memory:
        lines.append(f"per GPU {gib(plan.memory.total_bytes)} GiB: {_parts(plan.memory)}")
    if plan.startup:
        lines.append(f"ready in {_startup(plan, wide=False)}")
    lines += _security(plan)
    return [line for line in lines if line]


def table(plan: Plan, style: Printer, *, wide: bool = False) -> list[str]:
    """The plan as lines of text; wide: with the band of every figure."""
    return [_headline(plan, style), *_body(plan, wide)]


def _headline(plan: Plan, style: Printer) -> str:
    return f"{style.symbol(_MARKS[plan.verdict])} {style.paint(plan.model, 'bold')} {_words(plan)}{_where(plan)}"


def _body(plan: Plan, wide: bool) -> Iterator[str]:
    sections = [
        [("why", line) for line in _why(plan)] if not plan.runs else [],
        [("instead", line) for line in _instead(plan)] if not plan.runs else [],
        list(_rows(plan, wide)),
        [("why", line) for line in _why(plan)] if plan.runs else [],
        [("instead", line) for line in _instead(plan)] if plan.runs else [],
        [("security", line) for line in _security(plan)],
        [("note", line) for line in plan.notes],
    ]
    if plan.memory:
        yield ""
        yield from _memory(plan.memory)
    for section in sections:
        if section:
            yield ""
            yield from _labelled(section)
    yield from _explained(plan)


def _labelled(rows: list[tuple[str, str]]) -> Iterator[str]:
    """Rows of label and text, the text wrapped below itself and the label only where it changes."""
    before = ""
    for label, text in rows:
        shown, before = ("" if label == before else label), label or before
        indent = " " * (2 + _LABEL)
        yield from textwrap.wrap(
            text,
            _WIDTH,
            initial_indent=f"  {shown:<{_LABEL}}",
            subsequent_indent=indent + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def _why(plan: Plan) -> list[str]:
    return [reason.message for reason in plan.reasons]


def _instead(plan: Plan) -> list[str]:
    shown = {suggestion.flags: suggestion.effect for suggestion in plan.suggestions}
    for reason in plan.reasons:
        if reason.suggestion:
            shown.setdefault(reason.suggestion, "")
    width = max(map(len, shown), default=0)
    return [f"{flags:<{width}}  {effect}".rstrip() for flags, effect in shown.items()]


def _security(plan: Plan) -> list[str]:
    """What the pods give up, where the user relaxed their security."""
    loss = lost(plan.deployment.pod_security) if plan.deployment else None
    return [loss] if loss else []


def _words(plan: Plan) -> str:
    return {
        "fits": "fits",
        "risky": "may fit" if plan.proven else "cannot be checked from here",
        "does-not-fit": "does not fit",
        "invalid": "invalid request",
    }[plan.verdict]


def _where(plan: Plan) -> str:
    if plan.gpu is None or plan.parallelism is None:
        return ""
    layout = plan.parallelism
    return f" on {layout.gpus_per_replica} × {plan.gpu.name}"


def _engine_type(plan: Plan) -> str:
    return plan.engine.dtype if plan.engine else ""


def _rows(plan: Plan, wide: bool) -> Iterator[tuple[str, str]]:
    if plan.engine:
        yield "holds", _limits(plan)
    if plan.throughput:
        yield from (("speed", line) for line in _speed(plan.throughput, wide))
    if plan.startup:
        yield "ready in", _startup(plan, wide)
    if plan.cost:
        yield "cost", _cost(plan.cost, wide)
    if plan.parallelism:
        yield "layout", _layout(plan)
    if plan.engine:
        yield "engine", _engine(plan)
    if plan.deployment:
        yield from (("serve", line) for line in _serve(plan.deployment, wide))
        yield from (("image", line) for line in _image(plan.deployment.runtime))
    source = plan.facts_source
    yield "facts", source if wide or len(source) <= _WIDTH - _LABEL - 2 else source.partition(" (")[0]


def _layout(plan: Plan) -> str:
    layout, pods = plan.parallelism, plan.pods
    assert layout is not None
    most = layout.max_replicas
    replicas = f"{layout.replicas}" if most == layout.replicas else f"{layout.replicas} to {most}"
    text = f"TP {layout.tensor} × PP {layout.pipeline} · {replicas} replica{'' if most == 1 else 's'}"
    if pods is None:
        return text
    gpus = f"{pods.gpus_per_worker} GPU, " if pods.gpus_per_worker else ""
    count = f"{pods.workers_per_replica} workers each " if pods.workers_per_replica > 1 else "worker "
    worker = f"{count}{gpus}{pods.worker_cpu} CPU, {pods.worker_memory}"
    return f"{text} · {worker} · head {pods.head_cpu} CPU, {pods.head_memory}"


def _limits(plan: Plan) -> str:
    if plan.engine is None:
        return ""
    text = f"context {plan.engine.max_model_len:,} tokens"
    if plan.memory and plan.runs:
        full = plan.memory.max_concurrency
        text += f" · {_count(full)} request{'s' if full.typical >= 1.5 else ''} at full length"
    if plan.throughput:
        load = plan.throughput.load
        length = load.input_tokens + load.output_tokens
        text += f" · {_count(plan.throughput.concurrency_at_load)} of {length:,} tokens"
    return text


def _engine(plan: Plan) -> str:
    engine = plan.engine
    assert engine is not None
    parts = [f"vLLM {engine.vllm_version}", engine.dtype]
    parts += [engine.quantization] if engine.quantization else []
    parts += [f"KV {engine.kv_cache_dtype}"] if engine.kv_cache_dtype else []
    parts += [f"{engine.max_num_seqs} sequences", f"{engine.max_num_batched_tokens:,} tokens a step"]
    if engine.gpu_memory_utilization is not None:
        parts.append(f"utilization {engine.gpu_memory_utilization:g}")
    return " · ".join(parts)


def _speed(speed: Throughput, wide: bool) -> Iterator[str]:
    rows = (
        (_requests(round(speed.load.concurrency)), speed.at_load),
        (_requests(1), speed.one_request),
    )
    width = max(len(label) for label, _ in rows)
    for label, figures in rows:
        tokens = _figure(figures.output_tokens_per_second, "{:,.0f}", wide)
        ttft, tpot = _figure(figures.ttft, "{:.2f}", wide), _figure(figures.tpot, "{:.1f}", wide, 1e3)
        yield f"{label:>{width}}: {tokens} tokens/s, TTFT {ttft} s, TPOT {tpot} ms"
    if speed.extrapolated:
        yield "not covered by measurements: " + "; ".join(x if wide else x.split(":")[0] for x in speed.extrapolated)


def _serve(deployment: Deployment, wide: bool) -> Iterator[str]:
    serve = deployment.serve
    scaling = serve.autoscaling
    text = f"target {_requests(scaling.target_ongoing_requests)} per replica, at most {serve.max_ongoing_requests:,}"
    if scaling.max_replicas > scaling.min_replicas:
        up, down = format_duration(scaling.upscale_delay), format_duration(scaling.downscale_delay)
        text += f" · scale up after {up}, down after {down}"
    yield text
    if not wide:
        return
    worker, pod = deployment.worker, deployment.worker.pod
    yield f"{serve.placement_strategy} · {worker.cpus} CPUs offered to Ray, {serve.engine_cpus:g} for a replica"
    if labels := _node_labels(pod.placement):
        yield f"nodes known by {' or '.join(labels)}"
    if pod.placement.node_selector:
        yield f"nodes with {', '.join(f'{key}={value}' for key, value in pod.placement.node_selector.items())}"
    if pod.placement.tolerations:
        tolerated = [one.key if one.value is None else f"{one.key}={one.value}" for one in pod.placement.tolerations]
        yield f"tolerates {', '.join(tolerated)}"
    if pod.env:
        yield "env " + ", ".join(one.name if one.value is None else f"{one.name}={one.value}" for one in pod.env)


def _node_labels(placement: PodPlacement) -> list[str]:
    """The labels that the required node affinity asks for."""
    required = placement.affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    parts = (part for term in required.get("nodeSelectorTerms", ()) for part in term.get("matchExpressions", ()))
    return sorted({part["key"] for part in parts})


def _image(runtime: Runtime) -> Iterator[str]:
    note = f" ({runtime.image_note})" if runtime.image and runtime.image_note else ""
    image = runtime.image or f"none: {runtime.image_note}, deploy requires --image"
    yield f"{image}{note} · Ray {runtime.ray_version}, vLLM {runtime.vllm_version}"
    if runtime.assumed:
        yield f"{' and '.join(runtime.assumed)} assumed (--vllm-version, spec.engine.rayVersion)"


def _requests(count: int) -> str:
    return f"{count:,} request{'s' if count != 1 else ''}"


def _startup(plan: Plan, wide: bool) -> str:
    start = plan.startup
    assert start is not None
    steps = [("download", start.download), ("load", start.load), ("compile and capture", start.compile)]
    parts = ", ".join(f"{name} {_minutes(band.typical)}" for name, band in steps if band.typical >= 1)
    total = start.total
    text = f"about {_minutes(total.typical)} ({_minutes(total.low)} to {_minutes(total.high)})"
    return f"{text}: {parts}" + (f"; timeout {_minutes(start.wait_seconds)}" if wide else "")


def _cost(cost: Cost | UnknownCost, wide: bool) -> str:
    if isinstance(cost, UnknownCost):
        return cost.note
    text = f"{_band(cost.per_hour, '{:.2f}')} USD/h"
    if cost.smallest_machine is not None:
        text += f", a share of a machine with {cost.smallest_machine} GPUs"
    if cost.per_hour_at_max_replicas != cost.per_hour:
        text += f", at most {_figure(cost.per_hour_at_max_replicas, '{:.2f}', wide)}"
    if cost.per_million_output_tokens is not None:
        text += f" · {_figure(cost.per_million_output_tokens, '{:.2f}', wide)} USD per million output tokens"
    return text + (f" · prices: {cost.source}" if wide else "")


def _memory(memory: MemoryPlan) -> Iterator[str]:
    parts = _sizes(memory)
    total = sum(parts.values())
    bar, filled, edge = "", 0.0, 0
    for name, size in parts.items():
        filled += size
        width = round(_BAR * filled / total) - edge
        edge += width
        bar += _SHADES[name] * width
    left = f", {gib(parts['left'])} left" if parts["left"] else ", insufficient"
    yield f"  {'per GPU':<{_LABEL}}{bar} {gib(memory.total_bytes)} GiB{left}"
    legend = [f"{_SHADES[name]} {name} {gib(size)}" for name, size in parts.items() if name != "left"]
    yield f"  {'':<{_LABEL}}{'  '.join(legend)}"
    low, high = max(0.0, memory.kv_cache_bytes.low), max(0.0, memory.kv_cache_bytes.high)
    held = f"KV cache between {gib(low)} and {gib(high)} GiB" if high else "no memory is left for a KV cache"
    yield f"  {'':<{_LABEL}}{held}; one request at full length needs {memory.kv_needed_bytes / GIB:.2f} GiB"


def _sizes(memory: MemoryPlan) -> dict[str, float]:
    kv = max(0.0, memory.kv_cache_bytes.typical)
    used = memory.weights_bytes + memory.activation_bytes + memory.cuda_graph_bytes + memory.non_torch_bytes + kv
    return {
        "weights": memory.weights_bytes,
        "activations": memory.activation_bytes,
        "graphs": memory.cuda_graph_bytes,
        "non-torch": memory.non_torch_bytes,
        "KV cache": kv,
        "left": max(0.0, memory.total_bytes - used),
    }


def _parts(memory: MemoryPlan) -> str:
    sizes = _sizes(memory)
    kv = memory.kv_cache_bytes
    rest = sizes["activations"] + sizes["graphs"] + sizes["non-torch"]
    return (
        f"weights {gib(sizes['weights'])} · graphs, activations {gib(rest)} · "
        f"KV cache {gib(kv.typical)} ({gib(kv.low)}–{gib(kv.high)}) · left {gib(sizes['left'])}"
    )


def _explained(plan: Plan) -> Iterator[str]:
    if plan.candidates:
        yield ""
        yield f"  candidates ({len(plan.candidates)}, best first)"
        for row in plan.candidates:
            shape = f"{row.tensor * row.pipeline} × {row.gpu}"
            layout = f"TP {row.tensor} PP {row.pipeline}"
            price = f"{row.price_per_hour:.2f}" if row.price_per_hour is not None else "-"
            yield f"    {row.verdict:<13}{shape:<22}{layout:<11}{price:>8}  {row.line}"
    if plan.formulas:
        yield ""
        yield "  formulas"
        yield from (f"    {line}" for line in plan.formulas)


def _figure(band: Band, form: str, wide: bool, scale: float = 1.0) -> str:
    return _band(band, form, scale) if wide else form.format(band.typical * scale)


def _band(band: Band, form: str, scale: float = 1.0) -> str:
    low, typical, high = (form.format(x * scale) for x in (band.low, band.typical, band.high))
    return typical if low == high else f"{typical} ({low}–{high})"


def _count(band: Band) -> str:
    small = band.typical < 10
    form = "{:.1f}" if small else "{:,.0f}"
    return _band(Band(band.low, band.typical, band.high), form)


def _minutes(seconds: float) -> str:
    return format_duration(seconds) if seconds < 90 else f"{round(seconds / 60)} min"
