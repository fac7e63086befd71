"""The plan of one model as text: its size, the use of GPU memory, the limits, and why."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rayllm_ctl.console.plan import transformers
from rayllm_ctl.console.plan.figures import banded, counted, figure, minutes
from rayllm_ctl.console.plan.gateway import gateway_lines
from rayllm_ctl.console.plan.memory import memory_lines, memory_summary
from rayllm_ctl.console.plan.storage import storage_line, storage_lines
from rayllm_ctl.console.rows import LABEL, WIDTH, labelled
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.quantities import format_duration, gib
from rayllm_ctl.model.plan.deployment import Deployment, Runtime, ServeApplication, WorkerGroup
from rayllm_ctl.model.plan.plan import Cost, Plan, Throughput, UnknownCost
from rayllm_ctl.model.plan.pods import PodPlacement
from rayllm_ctl.model.spec.pod_contexts import lost

MARKS = {"fits": "ok", "risky": "warning", "does-not-fit": "error", "invalid": "error"}


def short(plan: Plan) -> list[str]:
    """The plan in three lines."""
    lines = [f"{plan.model}  {_engine_type(plan)}{_where(plan)}", _limits(plan)]
    if plan.memory:
        lines.append(f"per GPU {gib(plan.memory.total_bytes)} GiB: {memory_summary(plan.memory)}")
    if plan.transformers:
        lines.append(transformers.devices_summary(plan.transformers))
    if plan.startup:
        lines.append(f"ready in {_startup(plan, wide=False)}")
    if plan.storage and plan.storage.way != "hub":
        lines.append(storage_line(plan))
    lines += security(plan)
    return [line for line in lines if line]


def headline(plan: Plan, style: Printer, name: str = "") -> str:
    model = f"{name}: {plan.model}" if name else plan.model
    verdict = f"{':' if plan.verdict == 'invalid' else ''} {verdict_words(plan)}"
    return f"{style.symbol(MARKS[plan.verdict])} {style.paint(model, 'bold')}{verdict}{_where(plan)}"


def body(plan: Plan, wide: bool, style: Printer, *, alone: bool = True) -> Iterator[str]:
    """alone: include the parts that the models of a service share."""
    width = style.width(WIDTH)
    sections = [
        [("why", line) for line in _why(plan)] if not plan.runs else [],
        [("instead", line) for line in _instead(plan)] if not plan.runs else [],
        list(_rows(plan, wide, alone)),
        [("why", line) for line in _why(plan)] if plan.runs else [],
        [("instead", line) for line in _instead(plan)] if plan.runs else [],
        [("security", line) for line in security(plan) if alone],
        [("note", line) for line in (*(plan.warnings if alone else ()), *plan.notes)],
    ]
    if plan.memory:
        yield ""
        yield from memory_lines(plan.memory, width, style)
    if plan.transformers and plan.transformers.devices:
        yield ""
        yield from transformers.device_lines(plan.transformers, style)
    for section in sections:
        if section:
            yield ""
            yield from labelled(section, width, style)
    yield from _explained(plan, width)


def _why(plan: Plan) -> list[str]:
    return [reason.message for reason in plan.reasons]


def _instead(plan: Plan) -> list[str]:
    shown = {suggestion.flags: suggestion.effect for suggestion in plan.suggestions}
    for reason in plan.reasons:
        if reason.suggestion:
            shown.setdefault(reason.suggestion, "")
    width = max(map(len, shown), default=0)
    return [f"{flags:<{width}}  {effect}".rstrip() for flags, effect in shown.items()]


def security(plan: Plan) -> list[str]:
    """Protections that the pods lack after the user relaxed their security."""
    loss = lost(plan.deployment.pod_security) if plan.deployment else None
    return [loss] if loss else []


def verdict_words(plan: Plan) -> str:
    return {
        "fits": "fits",
        "risky": "may fit" if plan.proven else "cannot be checked from here",
        "does-not-fit": "does not fit",
        "invalid": "invalid request",
    }[plan.verdict]


def _where(plan: Plan) -> str:
    if plan.gpu is None:
        return ""
    if plan.parallelism is None:
        return f" on {plan.gpu.name}"
    layout = plan.parallelism
    return f" on {layout.gpus_per_replica} × {plan.gpu.name}"


def _engine_type(plan: Plan) -> str:
    engine = plan.engine or plan.transformers
    weights = plan.engine.weights if plan.engine else None
    return ", weights ".join(filter(None, (engine.dtype, weights))) if engine else ""


def _rows(plan: Plan, wide: bool, alone: bool) -> Iterator[tuple[str, str]]:
    if plan.engine or plan.transformers:
        yield "holds", _limits(plan)
    if plan.throughput:
        yield from (("speed", line) for line in _speed(plan.throughput, wide))
    if plan.startup:
        yield "ready in", _startup(plan, wide)
        explained = wide or bool(plan.candidates or plan.formulas)
        yield from (("weights", line) for line in storage_lines(plan, explained))
    if plan.cost:
        yield "cost", cost_line(plan.cost, wide)
    if plan.parallelism:
        yield "layout", _layout(plan, head=alone)
    if plan.deployment:
        others = (group for group in plan.deployment.worker_groups if group is not plan.deployment.worker)
        yield from (("layout", group_line(group)) for group in others)
    if plan.engine:
        yield "engine", _engine(plan)
    if plan.transformers:
        yield "engine", transformers.engine(plan.transformers)
    if plan.deployment:
        if plan.parallelism is None or not plan.parallelism.data:
            yield from (("serve", line) for line in _serve(plan.deployment, wide, packed=plan.transformers is None))
        yield from (("gateway", line) for line in gateway_lines(plan.deployment) if alone)
        yield from (("image", line) for line in image_lines(plan.deployment.runtime) if alone)
    source = plan.facts_source
    yield "facts", source if wide or len(source) <= WIDTH - LABEL - 2 else source.partition(" (")[0]


def _layout(plan: Plan, *, head: bool) -> str:
    layout, pods = plan.parallelism, plan.pods
    assert layout is not None
    most = layout.max_replicas
    replicas = f"{layout.replicas:,}" if most == layout.replicas else f"{layout.replicas:,} to {most:,}"
    ranks = f"DP {layout.data} × " if layout.data else ""
    spread = transformers.layout(plan) if plan.transformers else f"{ranks}TP {layout.tensor} × PP {layout.pipeline}"
    text = f"{spread} · {replicas} replica{'' if most == 1 else 's'}"
    if pods is None:
        return text
    gpus = f"{pods.gpus_per_worker} GPU, " if pods.gpus_per_worker else ""
    count = f"{pods.workers_per_replica} workers each " if pods.workers_per_replica > 1 else "worker "
    worker = f"{count}{gpus}{pods.worker_cpu} CPU, {pods.worker_memory}"
    return f"{text} · {worker}" + (f" · head {pods.head_cpu} CPU, {pods.head_memory}" if head else "")


def group_line(group: WorkerGroup) -> str:
    gpus = "".join(f"{count} GPU, " for count in group.extended_resources.values())
    size = f"{gpus}{group.pod_cpu} CPU, {group.pod_memory}"
    return f"group {group.name} · {group.min_workers} to {group.max_workers} pods · {size}"


def _limits(plan: Plan) -> str:
    if plan.transformers:
        return transformers.limits(plan.transformers)
    if plan.engine is None:
        return ""
    text = f"context {plan.engine.max_model_len:,} tokens"
    if plan.memory and plan.runs:
        full = plan.memory.max_concurrency
        text += f" · {counted(full)} request{'s' if full.typical >= 1.5 else ''} at full length"
        text += " per rank" if plan.parallelism and plan.parallelism.data else ""
    if plan.throughput:
        load = plan.throughput.load
        length = load.input_tokens + load.output_tokens
        text += f" · {counted(plan.throughput.concurrency_at_load)} of {length:,} tokens"
        text += " on average" if plan.throughput.long_prompt else ""
    return text


def _engine(plan: Plan) -> str:
    engine = plan.engine
    assert engine is not None
    parts = [f"vLLM {engine.vllm_version}", engine.dtype]
    parts += [f"weights {engine.weights}"] if engine.weights else []
    parts += [engine.quantization] if engine.quantization else []
    parts += [f"KV {engine.kv_cache_dtype}"] if engine.kv_cache_dtype else []
    parts += [f"{engine.max_num_seqs:,} sequences", f"{engine.max_num_batched_tokens:,} tokens a step"]
    if engine.gpu_memory_utilization is not None:
        parts.append(f"utilization {engine.gpu_memory_utilization:g}")
    return " · ".join(parts)


def _speed(speed: Throughput, wide: bool) -> Iterator[str]:
    """A table by requests in flight, with a row for the planned load."""
    planned = speed.load.concurrency
    points = {float(point.concurrency): point.figures for point in speed.curve or ()}
    points.pop(float(round(planned)), None)
    points |= {1.0: speed.one_request, planned: speed.at_load}
    rows = [("in flight", "tokens/s", "TTFT s", "TPOT ms")]
    for number, figures in sorted(points.items()):
        tokens = figure(figures.output_tokens_per_second, "{:,.0f}", wide)
        ttft, tpot = figure(figures.ttft, "{:.2f}", wide), figure(figures.tpot, "{:.1f}", wide, 1e3)
        rows.append((f"{number:,.10g}", tokens, ttft, tpot))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    marked = f"{planned:,.10g}" if len(points) > 1 else ""
    for row in rows:
        cells = "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        yield f"{cells}  planned load" if row[0] == marked else cells
    if (long := speed.long_prompt) is not None:
        ttft = figure(long.ttft, "{:.2f}", wide)
        yield f"TTFT {ttft} s for a prompt of {long.input_tokens:,} tokens, which 95 % do not exceed"
    if (measured := speed.calibration) is not None:
        memory = "" if measured.kv_cache is None else f", ×{measured.kv_cache:.2f} KV cache"
        yield (
            f"measured ×{measured.throughput:.2f} tokens/s, ×{measured.ttft:.2f} TTFT, ×{measured.tpot:.2f} TPOT"
            f"{memory} on {measured.date}, {measured.in_flight:g} in flight"
        )
    if speed.extrapolated:
        yield "not covered by measurements: " + "; ".join(x if wide else x.split(":")[0] for x in speed.extrapolated)


def _serve(deployment: Deployment, wide: bool, *, packed: bool) -> Iterator[str]:
    """packed: whether a replica has a placement group for its processes."""
    serve = deployment.serve
    if serve is None:
        yield f"vLLM's own server, at port {kuberay.SERVE_PORT} of {kuberay.openai_service(deployment.name)}"
    else:
        yield _scaling(serve)
    if not wide:
        return
    worker, pod = deployment.worker, deployment.worker.pod
    if serve is not None:
        placed = f"{serve.placement_strategy} · " if packed else ""
        yield f"{placed}{worker.cpus} CPUs offered to Ray, {serve.engine_cpus:g} for a replica"
    elif worker.server is not None:
        yield f"vllm serve {worker.server.model_source} {' '.join(worker.server.arguments)}"
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


def _scaling(serve: ServeApplication) -> str:
    scaling = serve.autoscaling
    text = f"target {_requests(scaling.target_ongoing_requests)} per replica, at most {serve.max_ongoing_requests:,}"
    if scaling.max_replicas > scaling.min_replicas:
        text += f" · starts with {scaling.initial_replicas}" if scaling.initial_replicas is not None else ""
        up, down = format_duration(scaling.upscale_delay), format_duration(scaling.downscale_delay)
        text += f" · scale up after {up}, down after {down}"
    return text


def image_lines(runtime: Runtime) -> Iterator[str]:
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
    parts = ", ".join(f"{name} {minutes(band.typical)}" for name, band in steps if band.typical >= 1)
    total = start.total
    text = f"about {minutes(total.typical)} ({minutes(total.low)} to {minutes(total.high)})"
    text += f": {parts}" if parts else ""
    if start.model_download is not None:
        text += f"; after the download of about {minutes(start.model_download.typical)}"
    if start.further is not None and start.further != total:
        text += f"; later replicas about {minutes(start.further.typical)}"
    return text + (f"; timeout {minutes(start.wait_seconds)}" if wide else "")


def cost_line(cost: Cost | UnknownCost, wide: bool) -> str:
    if isinstance(cost, UnknownCost):
        return cost.note
    text = f"{banded(cost.per_hour, '{:,.2f}')} USD/h"
    if cost.smallest_machine is not None:
        text += f", a share of a machine with {cost.smallest_machine} GPUs"
    if cost.per_hour_at_max_replicas != cost.per_hour:
        text += f", at most {figure(cost.per_hour_at_max_replicas, '{:,.2f}', wide)}"
    if cost.per_million_output_tokens is not None:
        text += f" · {figure(cost.per_million_output_tokens, '{:,.2f}', wide)} USD per million output tokens"
    return text + (f" · prices: {cost.source}" if wide else "")


def _explained(plan: Plan, width: int) -> Iterator[str]:
    if plan.candidates:
        yield ""
        yield f"  candidates ({len(plan.candidates)}, best first)"
        for row in plan.candidates:
            shape = f"{(row.data or 1) * row.tensor * row.pipeline} × {row.gpu}"
            ranks = f"DP {row.data} " if row.data else ""
            layout = "" if plan.transformers else f"{ranks}TP {row.tensor} PP {row.pipeline}"
            price = f"{row.price_per_hour:,.2f}" if row.price_per_hour is not None else "-"
            line = row.line.removeprefix("fits, ").removesuffix(f", {price} USD/h")  # both have a column
            text = f"    {row.verdict:<13}{shape:<22}{layout:<11}{price:>8}  {line}"
            yield from textwrap.wrap(text, width, subsequent_indent=" " * 17, break_long_words=False)
    if plan.formulas:
        yield ""
        yield "  formulas"
        yield from (f"    {line}" for line in plan.formulas)
