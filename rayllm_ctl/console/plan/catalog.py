"""Models and GPUs for people: tables of at most 100 columns (wide: as many as they need), and one of them in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rayllm_ctl.model.kube.quantities import gib
from rayllm_ctl.model.plan.catalog import ModelDetails, ModelSummary
from rayllm_ctl.model.plan.hardware import GPU

_LABEL = 12
_GAP = "  "
_LINKS = {"nvlink": "NVLink", "pcie": "PCIe", "xgmi": "Infinity Fabric", "none": "none"}


def model_table(models: Sequence[ModelSummary], *, wide: bool = False) -> Iterator[str]:
    """One line per model."""
    head = ["NAME", "PARAMETERS", "CONTEXT", "BITS"]
    rows = [[m.id, _parameters(m), f"{m.context_length:,}", str(m.weight_bits)] for m in models]
    if wide:
        head += ["WEIGHTS", "KIND", "ARCHITECTURE", "SOURCE"]
        for row, model in zip(rows, models, strict=True):
            row += [model.weights, ", ".join(model.kinds), model.architecture, _origin(model)]
    return _table(head, rows, right=(1, 2, 3))


def model_lines(model: ModelDetails) -> Iterator[str]:
    """All of one model."""
    summary = model.summary
    yield f"{summary.id}{_GAP}{summary.architecture}"
    yield from _pairs(
        ("kind", ", ".join(summary.kinds)),
        ("parameters", _parameters(summary)),
        ("weights", summary.weights),
        ("context", f"{summary.context_length:,} tokens"),
        ("layers", ", ".join(f"{count} {kind}" for kind, count in model.layers.items())),
        ("heads", f"{model.heads} query, {model.kv_heads} key/value, {model.head_dim} wide"),
        ("experts", f"{model.experts}, {model.experts_per_token} of them per token" if model.experts else ""),
        ("sizes", f"hidden {model.hidden_size:,}, vocabulary {model.vocab_size:,}"),
        ("source", _origin(summary)),
    )


def gpu_table(gpus: Sequence[GPU], *, wide: bool = False) -> Iterator[str]:
    """One line per GPU, in 80 columns: memory as torch reports it and its bandwidth, dense TFLOPS, the most GPUs of one
    machine, USD per hour."""
    head = ["NAME", "MEMORY", "TB/S", "BF16", "FP8", "CC", "LINK", "NODE", "USD/H"]
    rows = [
        [
            gpu.name,
            f"{gib(gpu.memory_bytes)} GiB",
            f"{gpu.bandwidth / 1e12:.2f}",
            _tflops(gpu, "bf16", "fp16"),
            _tflops(gpu, "fp8"),
            _capability(gpu),
            gpu.interconnect,
            str(gpu.max_per_node),
            _price(gpu),
        ]
        for gpu in gpus
    ]
    if wide:
        head += ["ARCHITECTURE", "RAY TYPE", "CLOUDS"]
        for row, gpu in zip(rows, gpus, strict=True):
            clouds = dict.fromkeys(shape.cloud for shape in gpu.shapes)
            row += [gpu.architecture, gpu.ray_accelerator_type or "-", ", ".join(clouds)]
    return _table(head, rows, right=(1, 2, 3, 4, 5, 7))


def gpu_lines(gpu: GPU) -> Iterator[str]:
    """All of one GPU."""
    capability = f", compute capability {_capability(gpu)}" if gpu.compute_capability else ""
    yield f"{gpu.name}{_GAP}{gpu.vendor.upper()} {gpu.architecture}{capability}"
    how = "as torch reports it" if gpu.memory_measured else "derived from the driver's figure"
    yield from _pairs(
        ("memory", f"{gib(gpu.memory_bytes)} GiB, {how}"),
        ("bandwidth", f"{gpu.bandwidth / 1e12:.2f} TB/s"),
        ("compute", " · ".join(f"{kind} {flops / 1e12:,.0f}" for kind, flops in gpu.flops.items()) + " TFLOPS, dense"),
        ("link", f"{_LINKS[gpu.interconnect]}, {gpu.link_bandwidth / 1e9:,.0f} GB/s each way"),
        ("also", ", ".join(gpu.aliases)),
        ("resource", gpu.resource),
        ("Ray type", gpu.ray_accelerator_type or "none: Ray Serve LLM has no name for it"),
        *(("labels", f"{key}={value}") for key, values in gpu.node_labels.items() for value in values),
        *(("taints", taint) for taint in gpu.taints),
        *(("machines", text) for text in _machines(gpu)),
        *(("USD/h", f"{price:>5.2f}  {cloud}") for cloud, price in gpu.price_per_hour.items()),
        *(("prices", source) for source in gpu.price_source.split("; ")),
        *(("sources", source) for source in gpu.sources),
    )


def _machines(gpu: GPU) -> Iterator[str]:
    width = max((len(f"{shape.cloud} {shape.instance_type}") for shape in gpu.shapes), default=0)
    for shape in gpu.shapes:
        name = f"{shape.cloud} {shape.instance_type}"
        yield f"{name:<{width}}{_GAP}{shape.gpus:>2} GPU, {shape.cpus:>3} CPU, {shape.memory_gib:>4} GiB"


def _pairs(*pairs: tuple[str, str]) -> Iterator[str]:
    before = ""
    for label, text in pairs:
        if text:
            yield f"  {'' if label == before else label:<{_LABEL}}{text}"
            before = label


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        cells = [
            f"{cell:>{w}}" if i in right else f"{cell:<{w}}"
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        yield _GAP.join(cells).rstrip()


def _parameters(model: ModelSummary) -> str:
    total = _short(model.parameters)
    return total if model.active_parameters == model.parameters else f"{total} ({_short(model.active_parameters)})"


def _short(count: int) -> str:
    """A number of parameters with three digits: 494M, 32.8B, 1.03T."""
    for unit, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if count >= unit * 0.9995:
            number = count / unit
            return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f}{letter}"
    return f"{count:,}"


def _origin(model: ModelSummary) -> str:
    return f"as {model.same_as}; {model.source}" if model.same_as else model.source


def _tflops(gpu: GPU, *kinds: str) -> str:
    return next((f"{gpu.flops[kind] / 1e12:,.0f}" for kind in kinds if kind in gpu.flops), "-")


def _capability(gpu: GPU) -> str:
    return ".".join(map(str, gpu.compute_capability)) if gpu.compute_capability else "-"


def _price(gpu: GPU) -> str:
    if not gpu.price_per_hour:
        return "-"
    low, high = min(gpu.price_per_hour.values()), max(gpu.price_per_hour.values())
    return f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
