"""NVIDIA's format, in config.json or hf_quant_config.json; MIXED_PRECISION names an algorithm per module.

Read in vLLM 0.33 (quantization/modelopt.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.ignore import Ignored, below
from rayllm_ctl.catalog.modelconfig.quantizer import (
    FP8_BLOCK,
    FP8_TENSOR,
    MXFP8,
    NVFP4,
    Quantizer,
    QuantizerRule,
    fp8,
)
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.plan.facts import Scheme
from rayllm_ctl.model.text.problems import quoted

_ALGORITHMS = {
    "NVFP4": NVFP4,
    "W4A16_NVFP4": replace(NVFP4, input_scale=False, weight_only=True),
    "FP8": replace(FP8_TENSOR, method="modelopt", input_scale=True),
    "FP8_PER_CHANNEL_PER_TOKEN": Scheme("modelopt", 8, floating=True),
    "FP8_PB_WO": replace(FP8_BLOCK, method="modelopt"),
    "FP8_BLOCK_SCALES": replace(FP8_BLOCK, method="modelopt"),
    "MXFP8": MXFP8,
}
_MIXED = "MIXED_PRECISION"


def _algorithm(name: str, group: int = 0) -> Scheme:
    """The scheme of an algorithm; `group`: what the config says of its groups, or of the edges of its blocks."""
    scheme = _ALGORITHMS.get(name.upper())
    if scheme is None:
        raise UserError(
            f"unsupported quantization: modelopt's quant_algo {quoted(name[:40])} is not one that vLLM has",
            hint=f"Algorithms that can be planned: {', '.join(_ALGORITHMS)}.",
        )
    if group and scheme.block:
        return replace(scheme, block=(group, group))
    return replace(scheme, group=group) if group and scheme.group > 0 else scheme


def read_modelopt(fields: Fields, inner: Fields, side: Mapping[str, Any] | None, method: str) -> Quantizer:
    whole = Fields(side, "hf_quant_config.json: ").child("quantization") if side else inner
    per_module = inner.child("quantized_layers").entries() or whole.child("quantized_layers").entries()
    algorithm = inner.text("quant_algo") or whole.text("quant_algo") or method.removeprefix("modelopt_").upper()
    excluded = inner.texts("exclude_modules", "ignore") + whole.texts("exclude_modules")
    group = inner.integer("group_size", default=0, low=0) or whole.integer("group_size", default=0, low=0)
    rules: list[QuantizerRule] = []
    named = {_MIXED} if per_module else {algorithm.upper() or "FP8"}
    if per_module:
        targets: dict[tuple[str, int], list[str]] = {}
        for name, entry in per_module.items():
            figures = Fields(entry if isinstance(entry, Mapping) else {}, f"quantized_layers.{name}.")
            way = figures.text("quant_algo").upper(), figures.integer("group_size", default=0, low=0)
            targets.setdefault(way, []).append(below(str(name)))
        rules = [QuantizerRule(_algorithm(*way), Ignored(names)) for way, names in targets.items()]
        if method == "fp8":
            rules.append(QuantizerRule(fp8(fields)[0]))
            named = set()
    else:
        rules = [QuantizerRule(_algorithm(algorithm or "FP8", group))]
    kv = inner.text("kv_cache_quant_algo") or whole.text("kv_cache_quant_algo")
    if not kv and inner.has("kv_cache_scheme"):
        kv = "FP8"
    # vLLM also excludes modules whose names contain an entry (is_layer_excluded).
    return Quantizer(
        _method(rules, named),
        tuple(rules),
        Ignored((*excluded, "lm_head"), (name for name in excluded if "*" not in name)),
        description=f"modelopt {algorithm or 'FP8'}"[:60],
        kv_cache_dtype="fp8" if kv.upper() == "FP8" else None,
        assumed="" if algorithm or per_module else "8 bits",
        needs=frozenset(f"modelopt {name}" for name in named),
    )


def _method(rules: list[QuantizerRule], named: set[str]) -> str:
    """vLLM's name of the method."""
    if _MIXED in named:
        return "modelopt_mixed"
    if any(rule.scheme is not None and rule.scheme.bits == 4 for rule in rules):
        return "modelopt_fp4"
    return "modelopt_mxfp8" if "MXFP8" in named else "modelopt"
