"""quantization_config (or hf_quant_config.json) to a Scheme per module.

Layouts from vLLM 0.29's model_executor/layers/quantization: which tensors a linear layer gets besides its weight.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.gptq import read_gptq
from rayllm_ctl.catalog.modelconfig.ignore import Ignored, below
from rayllm_ctl.catalog.modelconfig.quantizer import FP8_BLOCK, FP8_TENSOR, MXFP4, NVFP4, Quantizer, QuantizerRule
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.plan.facts import Scheme
from rayllm_ctl.model.text.problems import quoted


def read_quantization(config: Fields, side: Mapping[str, Any] | None) -> Quantizer | None:
    """The quantizer of a checkpoint, or None if it is not quantized. UserError for an unknown method."""
    fields = config.child("quantization_config", "compression_config")
    if not fields:
        fields = config.child("text_config", "language_config", "llm_config").child("quantization_config")
    if not fields and side:
        fields = Fields(side, "hf_quant_config.json: ")
    if not fields:
        return None
    inner = fields.child("quantization")
    producer = fields.child("producer").text("name")
    method = fields.text("quant_method").lower().replace("_tensors", "-tensors")
    if producer == "modelopt" or inner.has("quant_algo") or method.startswith("modelopt") or fields.has("quant_algo"):
        return _modelopt(fields, inner if inner else fields, side, method)
    reader = _READERS.get(method)
    if reader is None:
        raise UserError(
            f"unsupported quantization: config.json names quant_method {quoted(method[:40])}, which vLLM does not have",
            hint=f"Methods that can be planned: {', '.join(sorted(_READERS))}, modelopt.",
        )
    return reader(fields)


def _skipped(fields: Fields) -> Ignored:
    return Ignored(
        fields.texts("modules_to_not_convert", "ignored_layers")
        + fields.texts("ignore", "exclude_modules", "exclude")
        + ("lm_head",)
    )


def _fp8(fields: Fields) -> Quantizer:
    block = fields.integers("weight_block_size", low=1)
    static = fields.text("activation_scheme", default="dynamic") == "static"
    scheme = FP8_BLOCK if block else replace(FP8_TENSOR, input_scale=static)
    if len(block) == 2:
        scheme = replace(scheme, block=(block[0], block[1]))
    about = f"fp8 in blocks of {block[0]}x{block[-1]}" if block else "fp8 per tensor"
    return Quantizer("fp8", (QuantizerRule(scheme),), _skipped(fields), description=about)


def _fbgemm(fields: Fields) -> Quantizer:
    scheme = Scheme("fbgemm_fp8", 8, floating=True)
    return Quantizer("fbgemm_fp8", (QuantizerRule(scheme),), _skipped(fields), description="fp8 per channel (FBGEMM)")


def _awq(fields: Fields) -> Quantizer:
    bits = fields.integer("bits", "w_bit", default=4, high=8)
    group = fields.integer("group_size", "q_group_size", default=128, low=-1)
    zeros = fields.flag("zero_point", default=True)
    scheme = Scheme("awq", bits, group=max(group, 0), scale_bytes=2, zero_points=zeros, weight_only=True)
    return Quantizer(
        "awq", (QuantizerRule(scheme),), _skipped(fields), description=f"AWQ {bits} bit, groups of {group}"
    )


def _mxfp4(fields: Fields) -> Quantizer:
    return Quantizer("mxfp4", (QuantizerRule(MXFP4),), _skipped(fields), description="mxfp4 experts", experts_only=True)


def _bitsandbytes(fields: Fields) -> Quantizer:
    bits = 8 if fields.flag("load_in_8bit") else 4
    scheme = Scheme("bitsandbytes", bits, group=64 if bits == 4 else 0, scale_bytes=4, weight_only=True)
    ignored = Ignored((*fields.texts("llm_int8_skip_modules"), "lm_head"))
    return Quantizer("bitsandbytes", (QuantizerRule(scheme),), ignored, description=f"bitsandbytes {bits} bit")


def _torchao(fields: Fields) -> Quantizer:
    text = str(fields.raw("quant_type"))[:2000].lower()
    if "float8" in text:
        scheme = replace(FP8_TENSOR, group=0)
    elif "int4" in text:
        group = re.search(r"group_size\D{1,4}(\d{1,5})", text)
        scheme = Scheme("torchao", 4, group=int(group[1]) if group else 128, scale_bytes=2, zero_points=True)
    else:
        scheme = Scheme("torchao", 8, scale_bytes=4)
    assumed = "" if fields.has("quant_type") else "8 bits"
    rules = (QuantizerRule(replace(scheme, method="torchao")),)
    return Quantizer("torchao", rules, _skipped(fields), description="torchao", assumed=assumed)


def _quark(fields: Fields) -> Quantizer:
    weights = fields.child("global_quant_config").child("weight")
    kind, granularity = weights.text("dtype", default="fp8_e4m3"), weights.text("qscheme", default="per_tensor")
    if kind == "fp4":
        scheme = replace(MXFP4, method="quark")
    else:
        scheme = Scheme("quark", 8, floating="fp8" in kind, group=-1 if granularity == "per_tensor" else 0)
    return Quantizer("quark", (QuantizerRule(scheme),), _skipped(fields), description=f"Quark {kind}"[:60],
                     assumed="" if weights.has("dtype") else "8 bits")  # fmt: skip


def _compressed(fields: Fields) -> Quantizer:
    groups = fields.child("config_groups")
    rules: list[QuantizerRule] = []
    head = False  # the target Linear does not reach the output head
    for name in groups.entries():
        group = groups.child(name)
        targets = group.texts("targets")
        general = not targets or any("." not in target and ":" not in target for target in targets)
        head = head or "lm_head" in Ignored(targets)
        layout = group.text("format", default=fields.text("format"))
        scheme = _weights(group.child("weights"), group.child("input_activations"), layout)
        rules.append(QuantizerRule(scheme, None if general else Ignored(targets)))
    rules.sort(key=lambda rule: rule.targets is None)
    kv = fields.raw("kv_cache_scheme")
    layout = fields.text("format", default="compressed-tensors")
    return Quantizer(
        "compressed-tensors",
        tuple(rules),
        Ignored(fields.texts("ignore")),
        description=f"compressed-tensors {layout}"[:60],
        kv_cache_dtype="fp8" if kv else None,
        head=head,
    )


def _weights(weights: Fields, activations: Fields, layout: str) -> Scheme:
    """The `weights` of one group of compressed-tensors (or of modelopt's copy of that format)."""
    bits = weights.integer("num_bits", default=8, high=16)
    floating = weights.text("type", default="int") == "float"
    strategy = weights.text("strategy", default="group" if weights.has("group_size") else "tensor")
    size = weights.integer("group_size", default=0, low=-1)
    group = {"tensor": -1, "channel": 0, "block": 0}.get(strategy, max(size, 0))
    static = bool(activations) and not activations.flag("dynamic")
    if bits == 4 and floating:
        if layout.startswith("mxfp4") or size == 32:
            return replace(MXFP4, method="compressed-tensors")
        return replace(NVFP4, method="compressed-tensors")
    block = weights.integers("block_structure", low=1) if strategy == "block" else ()
    if strategy == "block" and len(block) != 2:
        block = (128, 128)
    return Scheme(
        "compressed-tensors",
        bits,
        floating=floating,
        group=group,
        block=(block[0], block[1]) if block else None,
        scale_bytes=2 if group > 0 else 4,
        zero_points=not weights.flag("symmetric", default=True),
        input_scale=static,
        activation_order=weights.text("actorder") in ("group", "true"),
        weight_only=not activations,
    )


_ALGORITHMS = {
    "NVFP4": NVFP4, "W4A16_NVFP4": replace(NVFP4, input_scale=False, weight_only=True), "W4A8_NVFP4_FP8": NVFP4,
    "MXFP4": MXFP4, "W4A8_MXFP4_FP8": MXFP4, "FP8": replace(FP8_TENSOR, method="modelopt", input_scale=True),
    "FP8_PER_CHANNEL_PER_TOKEN": Scheme("modelopt", 8, floating=True),
    "FP8_PB_WO": replace(FP8_BLOCK, method="modelopt"),
    "MXFP8": Scheme("modelopt", 8, floating=True, group=32, scale_bytes=1),
    "W4A16_AWQ": Scheme("awq", 4, group=128, scale_bytes=2, weight_only=True),
}  # fmt: skip


def _algorithm(name: str) -> Scheme:
    scheme = _ALGORITHMS.get(name.upper())
    if scheme is None:
        raise UserError(
            f"unsupported quantization: modelopt's quant_algo {quoted(name[:40])} is not one that vLLM has",
            hint=f"Algorithms that can be planned: {', '.join(_ALGORITHMS)}.",
        )
    return scheme


def _modelopt(fields: Fields, inner: Fields, side: Mapping[str, Any] | None, method: str) -> Quantizer:
    """NVIDIA's format, in config.json or hf_quant_config.json; MIXED_PRECISION names an algorithm per module."""
    whole = Fields(side, "hf_quant_config.json: ").child("quantization") if side else inner
    per_module = inner.child("quantized_layers").entries() or whole.child("quantized_layers").entries()
    algorithm = inner.text("quant_algo") or whole.text("quant_algo") or method.removeprefix("modelopt_").upper()
    excluded = inner.texts("exclude_modules", "ignore") + whole.texts("exclude_modules")
    rules: list[QuantizerRule] = []
    if per_module:
        targets: dict[str, list[str]] = {}
        for name, entry in per_module.items():
            algo = Fields(entry if isinstance(entry, Mapping) else {}, f"quantized_layers.{name}.").text("quant_algo")
            targets.setdefault(algo, []).append(below(str(name)))
        rules = [QuantizerRule(_algorithm(algo), Ignored(names)) for algo, names in targets.items()]
        if method == "fp8":
            rules.append(QuantizerRule(_fp8(fields).rules[0].scheme))
    else:
        rules = [QuantizerRule(_algorithm(algorithm or "FP8"))]
    kv = inner.text("kv_cache_quant_algo") or whole.text("kv_cache_quant_algo")
    if not kv and inner.has("kv_cache_scheme"):
        kv = "FP8"
    fp4 = any(rule.scheme is not None and rule.scheme.bits == 4 for rule in rules)
    return Quantizer(
        "modelopt_fp4" if fp4 else "modelopt",
        tuple(rules),
        Ignored((*excluded, "lm_head")),
        description=f"modelopt {algorithm or 'FP8'}"[:60],
        kv_cache_dtype="fp8" if kv.upper() == "FP8" else None,
    )


_READERS = {
    "fp8": _fp8, "deepseek_v4_fp8": _fp8, "fbgemm_fp8": _fbgemm, "awq": _awq, "awq_marlin": _awq, "gptq": read_gptq,
    "gptq_marlin": read_gptq, "auto-round": read_gptq, "auto_round": read_gptq, "inc": read_gptq, "mxfp4": _mxfp4,
    "gpt_oss_mxfp4": _mxfp4, "bitsandbytes": _bitsandbytes, "torchao": _torchao, "quark": _quark,
    "compressed-tensors": _compressed,
}  # fmt: skip
