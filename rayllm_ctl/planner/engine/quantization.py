"""Quantizations that a release of vLLM or a GPU does not take, and those that contradict the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.kube.names import nearest
from rayllm_ctl.model.plan.facts import Linear
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Reason
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.engine.refusal import Refusal, changed_engine, requires
from rayllm_ctl.planner.memory.estimate import online_scheme
from rayllm_ctl.planner.request import Request
from rayllm_ctl.planner.vllm_rules import VersionRule

_Release = tuple[int, int, int]

_NEEDS: dict[str, VersionRule] = {
    "modelopt FP8_PER_CHANNEL_PER_TOKEN": vllm_rules.MODELOPT_FP8_BY_CHANNEL,
    "modelopt FP8_PB_WO": vllm_rules.MODELOPT_FP8_BY_BLOCK,
    "modelopt MXFP8": vllm_rules.MODELOPT_MXFP8,
    "modelopt MIXED_PRECISION": vllm_rules.MODELOPT_MIXED,
    "modelopt W4A16_NVFP4": vllm_rules.MODELOPT_NVFP4_WEIGHTS,
    "modelopt FP8_BLOCK_SCALES": vllm_rules.MODELOPT_BLOCK_SCALES,
    "autoround-mx": vllm_rules.AUTOROUND_MX,
    "autoround-fp8": vllm_rules.AUTOROUND_FP8,
    "asymmetric-gptq": vllm_rules.ASYMMETRIC_GPTQ,
    "activation-order": vllm_rules.ACTIVATION_ORDER,
    "sparse-24": vllm_rules.SPARSE_WEIGHTS,
}
"""The releases that take what a checkpoint needs."""

_ABOUT = {
    "autoround-mx": "AutoRound's weights in MX floats (data_type: mx_fp)",
    "autoround-fp8": "AutoRound's weights in fp8 (data_type: fp)",
    "asymmetric-gptq": "asymmetric GPTQ weights (sym: false)",
    "activation-order": "weights with activation order (desc_act, actorder: group)",
    "sparse-24": "sparse weights (sparsity_config)",
}

_GPTQ_BITS = (2, 3, 4, 8)
_MARLIN_BITS = (4, 8)
"""Widths for which vLLM has GPTQ kernels: those of gptq.py, and of Marlin's."""

_CHECKPOINT_ONLY = frozenset(
    {"awq", "gptq", "compressed-tensors", "modelopt", "mxfp4", "fbgemm_fp8", "fp_quant", "quark", "moe_wna16"}
)
"""Methods that only read what a checkpoint holds; the others quantize while loading."""

_ALIASES = {"inc": ("auto-round", "auto_round")}
"""Earlier names of methods: vLLM 0.9 to 0.23 calls AutoRound's format auto-round, inc since 0.10."""

_ONLINE = {"mxfp4": vllm_rules.MXFP4_WHILE_LOADING, "mxfp8": vllm_rules.MXFP8_WHILE_LOADING}
"""Names of checkpoints' methods that quantize while loading in some releases."""

_BLACKWELL_ALONE = frozenset({"nvfp4_per_token"})
"""Methods whose only kernel is FlashInfer TRT-LLM's (quantization/online/nvfp4.py, 0.33)."""


def online_fp8(release: _Release) -> str:
    """vLLM's name for fp8 with a scale per tensor, quantized while loading."""
    return "fp8_per_tensor" if vllm_rules.FP8_READS_ALONE.holds(release) else "fp8"


def quantization_problems(request: Request) -> Iterator[Refusal]:
    """A method that this version lacks, one that is not the checkpoint's, or weights that no kernel takes."""
    yield from _method(request)
    yield from _needs(request)
    yield from _widths(request)


def _method(request: Request) -> Iterator[Refusal]:
    methods, version, release = request.engine.quantization, request.engine.version, request.engine.release
    own, wanted = request.facts.quantization, request.service.engine.quantization
    instead = online_fp8(release)
    to_fp8 = f"--quantization {instead}", changed_engine(quantization=instead)
    if methods and own and methods.keys().isdisjoint((own.method, *_ALIASES.get(own.method, ()))):
        message = f"the checkpoint is quantized with {own.method}, which vLLM {version} does not support"
        yield Refusal(Reason("quantization-unknown", message))
    elif methods and wanted and wanted not in methods:
        other = nearest(wanted, methods) or (own.method if own else instead)
        reason = Reason("quantization-unknown", f'vLLM {version} does not support quantization "{wanted}"')
        yield Refusal(reason, f"--quantization {other}", changed_engine(quantization=other))
    elif own and wanted and _family(own.method) != _family(wanted):
        message = f"the checkpoint is quantized with {own.method} and cannot be quantized with {wanted}"
        reason = Reason("quantization-contradicts-checkpoint", message)
        yield Refusal(reason, f"--quantization {own.method}", changed_engine(quantization=own.method))
    elif wanted and not own and wanted == "fp8" and vllm_rules.FP8_READS_ALONE.holds(release):
        message = f"vLLM {version} quantizes to fp8 while loading under the name {instead}; fp8 only reads checkpoints"
        yield Refusal(Reason("quantization-needs-checkpoint", message), *to_fp8)
    elif wanted and not own and _reads_alone(wanted, release):
        message = f"{wanted} requires a checkpoint that is quantized with it; this one is not quantized"
        yield Refusal(Reason("quantization-needs-checkpoint", message), *to_fp8)
    elif wanted and not own and online_scheme(wanted) is None:
        message = f"quantizing a checkpoint with {wanted} while loading cannot be planned"
        yield Refusal(Reason("quantization-not-planned", message), *to_fp8)


def _reads_alone(method: str, release: _Release) -> bool:
    """Whether a method only reads quantized checkpoints."""
    online = _ONLINE.get(method)
    return not online.holds(release) if online else _family(method) in _CHECKPOINT_ONLY


def _family(method: str) -> str:
    """A method without the name of its kernel, and modelopt's without that of its algorithm: awq_marlin and auto_awq
    read the same checkpoints as awq."""
    if method.startswith("modelopt"):
        return "modelopt"
    renamed = next((name for name, others in _ALIASES.items() if method in others), "")
    return renamed or method.removeprefix("auto_").removesuffix("_marlin")


def _needs(request: Request) -> Iterator[Refusal]:
    """What some releases alone take."""
    own, engine = request.facts.quantization, request.engine
    if own is None:
        return
    needs = own.needs | ({"activation-order"} if _has_activation_order(request) else set())
    for need in sorted(needs):
        rule, about = _NEEDS.get(need), _ABOUT.get(need, need)
        if rule is None or rule.holds(engine.release):
            continue
        if engine.release < rule.since:
            message = f"the checkpoint has {about}, which vLLM {engine.version} does not support"
            yield Refusal(Reason("quantization-unknown", message, f"--vllm-version {_number(rule.since)}"))
        elif rule.until is not None:
            message = f"the checkpoint has {about}, which vLLM supports up to the releases before {_number(rule.until)}"
            yield Refusal(Reason("quantization-removed", message))


def _has_activation_order(request: Request) -> bool:
    """Whether weights in groups are ordered by activations; with one group per channel it means nothing."""
    return any(
        linear.scheme is not None and linear.scheme.activation_order and linear.scheme.group > 0
        for linear in _linears(request)
    )


def _number(release: _Release) -> str:
    return ".".join(map(str, release))


def _linears(request: Request) -> Iterator[Linear]:
    for layer in {id(layer): layer for layer in request.facts.layers}.values():
        yield from layer.linears


def _widths(request: Request) -> Iterator[Refusal]:
    """Weights that no kernel takes, however many GPUs share them."""
    release, version = request.engine.release, request.engine.version
    gptq = _GPTQ_BITS if vllm_rules.GPTQ_HAS_KERNELS.holds(release) else _MARLIN_BITS
    widths = {
        "gptq": gptq,
        "inc": range(2, 9) if vllm_rules.AUTOROUND_TAKES_ALL_WIDTHS.holds(release) else gptq,
        "awq": _MARLIN_BITS if vllm_rules.AWQ_IN_8_BITS.holds(release) else (4,),
    }
    for linear in _linears(request):
        scheme = linear.scheme
        if scheme is None or scheme.floating or scheme.method not in widths:
            continue
        message, kinds = "", widths[scheme.method]
        if scheme.bits not in kinds:
            name = {"inc": "AutoRound"}.get(scheme.method, scheme.method.upper())
            numbers = " or ".join(part for part in (", ".join(map(str, kinds[:-1])), str(kinds[-1])) if part)
            message = f"vLLM {version} supports {name} weights of {numbers} bits, and those of {linear.name} have "
            message += str(scheme.bits)
        elif 0 < scheme.group < linear.inputs and linear.inputs % scheme.group:
            message = f"the {linear.inputs} inputs of {linear.name} are not divisible by group_size {scheme.group}"
        if message:
            yield Refusal(Reason("quantization-shape", message))
            return


def quantization_on(request: Request, gpu: GPU) -> Iterator[Refusal]:
    """A quantization that a kind of GPU does not compute in."""
    capability = gpu.compute_capability
    own, wanted = request.facts.quantization, request.service.engine.quantization
    if capability is None:
        return
    unquantized = ("without --quantization", changed_engine(quantization=None)) if not own else ("", None)
    methods = [own.method, *_compressed_schemes(request)] if own else []
    for method in [*methods, wanted]:
        least = request.engine.quantization.get(method or "")
        if method in _BLACKWELL_ALONE:
            least = (10, 0)
        if least is not None and capability < least:
            message = f"{gpu.name} does not support {method} ({requires(least, gpu)})"
            yield Refusal(Reason("quantization-needs-newer-gpu", message), *unquantized)
            return
    if wanted and not own and wanted.startswith("fp8") and "fp8" not in gpu.flops:
        message = (
            f"{gpu.name} does not support fp8 arithmetic ({requires((8, 9), gpu)}); "
            "an AWQ, GPTQ or FP8 checkpoint of the model runs there with 16-bit arithmetic"
        )
        yield Refusal(Reason("quantization-needs-newer-gpu", message), *unquantized)


def _compressed_schemes(request: Request) -> list[str]:
    """The schemes of a compressed-tensors checkpoint by the engine's names: each has a capability of its own.

    On a GPU without fp8 arithmetic vLLM reads fp8 weights by the weight-only scheme, so that is the one that counts.
    """
    layers = {id(layer): layer for layer in request.facts.all_layers()}.values()
    schemes = {linear.scheme for layer in layers for linear in layer.linears}
    schemes |= {group.scheme for layer in layers for group in layer.experts}
    names = set()
    for scheme in schemes:
        if scheme is None or scheme.method != "compressed-tensors":
            continue
        if scheme.bits == 8:
            names.add("w8a16_fp8" if scheme.floating else "wNa16" if scheme.weight_only else "w8a8_int8")
        elif not scheme.floating:
            names.add("wNa16")
    return sorted(f"compressed-tensors/{name}" for name in names)
