"""One layout judged: a kind of GPU, how many of one pod, and how many requests are generated at once."""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import gib, parse_quantity
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Reason, Verdict
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.spec.transformers import TransformersOptions
from rayllm_ctl.planner.engine.context import default_context
from rayllm_ctl.planner.engine.settings import has_bfloat16, resolve_dtype
from rayllm_ctl.planner.request import Request
from rayllm_ctl.planner.speed.cost import replica_price
from rayllm_ctl.planner.transformers.memory import Machine, Spread, spread, transformers_context_bytes
from rayllm_ctl.planner.transformers.parts import Loading, ModelPart, parts_of

DEFAULT_CONTEXT = 4096
"""Tokens of a request where the user states none: the cache of a batch is as long as its longest request may be."""

DEFAULT_BATCH = 8
"""Requests generated at once where the user states none, and memory does not limit them further."""

_BATCHES = tuple(range(DEFAULT_BATCH, 0, -1))
_COUNTS = (1, 2, 4, 8)

_INT8_CAPABILITY = (7, 5)
"""The first compute capability with the int8 tensor cores that bitsandbytes' 8 bits need."""

_BUILDS_CAPABILITY = (7, 5)
"""PyTorch 2.11 left compute capability 7.0 out of its CUDA 12.8 and 13 builds (pytorch#172352)."""


@dataclass(frozen=True)
class DeviceLayout:
    """A layout and its verdict. spread: None if it was refused, or some layer does not fit.

    price: USD per hour of one replica; None if no price is known.
    """

    gpu: GPU
    gpus: int
    loading: Loading
    batch: int
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    spread: Spread | None = None
    price: float | None = None

    def __str__(self) -> str:
        return f"{self.gpus} × {self.gpu.name}"


def options_of(service: LLMService) -> TransformersOptions:
    """What the user says of the engine, or nothing of it."""
    return service.engine.transformers or TransformersOptions()


def loading_of(request: Request, gpu: GPU) -> Loading:
    """How the model is loaded on GPUs of this kind."""
    engine, facts = request.service.engine, request.facts
    return Loading(resolve_dtype(engine.dtype, facts, gpu), engine.quantization, context_of(request))


def context_of(request: Request) -> int:
    """The tokens of the longest request."""
    service = request.service
    return service.engine.max_model_len or default_context(service.load, DEFAULT_CONTEXT, request.facts.max_model_len)


def layouts(request: Request) -> list[DeviceLayout]:
    """The layouts on every kind of GPU in question: for each the fewest that hold the model last, or all that do not.

    Layers go to CPU memory, where the user lets them, only if no number of GPUs holds all.
    """
    found: list[DeviceLayout] = []
    for gpu in request.gpus:
        found += _on(request, gpu)
    return found


def _on(request: Request, gpu: GPU) -> list[DeviceLayout]:
    options, loading = options_of(request.service), loading_of(request, gpu)
    counts = [options.gpus] if options.gpus is not None else [n for n in _COUNTS if n <= gpu.max_per_node]
    refused = _refusal(request, gpu, counts[0])
    if refused is not None:
        price = replica_price(gpu, counts[0])
        return [DeviceLayout(gpu, counts[0], loading, DEFAULT_BATCH, "invalid", (refused,), price=price)]
    parts = parts_of(request.facts, loading)
    found: list[DeviceLayout] = []
    for offload in (False, True) if options.cpu_memory is not None else (False,):
        cpu = _bytes(options.cpu_memory) if offload else None
        for count in counts:
            found.append(_judged(request, Machine(gpu, count, _bytes(options.max_memory_per_gpu), cpu), loading, parts))
            if found[-1].verdict == "fits":
                return found
    return found


def _refusal(request: Request, gpu: GPU, count: int) -> Reason | None:
    """What so many GPUs of this kind cannot do."""
    engine, capability = request.service.engine, gpu.compute_capability
    if count > gpu.max_per_node:
        return Reason(
            "gpus-exceed-node",
            f"{count} GPUs exceed the {gpu.max_per_node} of a node with {gpu.name}: the layers lie on GPUs of one pod",
            f"spec.engine.transformers.gpus: {gpu.max_per_node}",
        )
    if engine.dtype == "bfloat16" and not has_bfloat16(gpu):
        message = f"{gpu.name} does not support bfloat16 (requires compute capability 8.0+)"
        return Reason("dtype-needs-newer-gpu", message, "--dtype float16")
    if engine.quantization == "bitsandbytes-8bit" and capability is not None and capability < _INT8_CAPABILITY:
        message = f"{gpu.name} does not support bitsandbytes-8bit (requires compute capability 7.5+)"
        return Reason("quantization-needs-newer-gpu", message, "--quantization bitsandbytes-4bit")
    return None


def _judged(request: Request, machine: Machine, loading: Loading, parts: tuple[ModelPart, ...]) -> DeviceLayout:
    """The layout with as many requests at once as surely fit, of those that the user asks for or the usual ones."""
    wanted = request.service.engine.max_num_seqs
    batches = _BATCHES if wanted is None else (wanted,)
    offload = machine.cpu is not None
    found: Spread | None = None
    for batch in batches:
        found = spread(request.facts, parts, loading, machine, batch, offload=offload)
        if found is not None and found.fits:
            break
        if found is None and not offload:
            break  # fewer requests free no memory for weights
    verdict, reasons = _verdict(found, machine, loading, parts, batch)
    caveats = tuple(_caveats(request, machine.gpu))
    if caveats and verdict == "fits":
        verdict = "risky"
    price = replica_price(machine.gpu, machine.gpus)
    return DeviceLayout(machine.gpu, machine.gpus, loading, batch, verdict, (*reasons, *caveats), found, price)


def _verdict(
    found: Spread | None, machine: Machine, loading: Loading, parts: tuple[ModelPart, ...], batch: int
) -> tuple[Verdict, tuple[Reason, ...]]:
    weights, name = sum(part.weights for part in parts), f"{machine.gpus} × {machine.gpu.name}"
    if found is None:
        return "does-not-fit", (_no_place(machine, loading, weights, name),)
    if found.fits:
        return "fits", ()
    full = found.fullest
    what = (
        f"GPU {full.device} of {name} needs {gib(full.needed_bytes)} GiB: weights {gib(full.weights_bytes)}, cache of "
        f"{batch} request{'s' if batch > 1 else ''} of {loading.context:,} tokens {gib(full.kv_cache_bytes)}, "
        f"activations {gib(full.activation_bytes)}, CUDA {gib(full.context_bytes)}"
    )
    if found.may_fit:
        return "risky", (
            Reason(
                "memory-uncertain",
                f"{what}; of its {gib(full.total_bytes)} GiB that leaves less than the {gib(full.margin_bytes)} GiB "
                "that are kept free for what is not measured",
            ),
        )
    missing = full.needed_bytes - full.total_bytes
    return "does-not-fit", (Reason("memory-insufficient", f"{what}; that is {gib(missing)} GiB more than it has"),)


def _no_place(machine: Machine, loading: Loading, weights: int, name: str) -> Reason:
    free = machine.gpu.memory_bytes - transformers_context_bytes(machine.gpu)
    each = free if machine.cap is None else min(free, machine.cap)
    limit = " with maxMemoryPerGPU" if machine.cap is not None and machine.cap < free else ""
    if machine.cpu is not None:
        message = f"{gib(weights)} GiB of weights exceed the capacity of {name}{limit} beside cache and activations"
        return Reason("weights-exceed-memory", f"{message}, and {gib(machine.cpu)} GiB of CPU memory")
    capacity = each * machine.gpus
    if weights > capacity:
        message = f"{gib(weights)} GiB of weights exceed the capacity of {name}{limit} ({gib(capacity)} GiB)"
        return Reason("weights-exceed-memory", f"{message} by {gib(weights - capacity)} GiB")
    message = f"{gib(weights)} GiB of weights cannot be placed on {name}{limit} ({gib(capacity)} GiB)"
    quantized = "; with bitsandbytes it uses 90 % of the memory" if loading.quantization else ""
    return Reason(
        "layers-do-not-fit",
        f"{message}: device_map places whole layers and reserves memory for the largest one{quantized}",
    )


def _caveats(request: Request, gpu: GPU) -> list[Reason]:
    """Why a layout that fits may not run."""
    found = []
    own = request.facts.quantization
    if own is not None:
        message = f"the checkpoint is quantized with {own.method}: whether the image's Transformers reads it as it is"
        found.append(Reason("checkpoint-quantization", f"{message}, and does not unpack it, is not known here"))
    if gpu.compute_capability is not None and gpu.compute_capability < _BUILDS_CAPABILITY:
        message = f"the released builds of PyTorch 2.11 and newer do not support {gpu.name}; it needs a custom build"
        found.append(Reason("gpu-not-in-builds", message))
    return found


def _bytes(quantity: str | None) -> int | None:
    return None if quantity is None else int(parse_quantity(quantity))
