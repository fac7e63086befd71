"""quantization_config of AMD's Quark: a way for all modules and others for some of them.

Read in vLLM 0.33 (quantization/quark/quark.py and its schemes; utils/ocp_mx_utils.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.ignore import MOST_RULES, Ignored
from rayllm_ctl.catalog.modelconfig.quantizer import MXFP4, NVFP4, Quantizer, QuantizerRule
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.plan.facts import Scheme
from rayllm_ctl.model.text.problems import quoted

_BITS = {"fp4": 4, "fp6_e3m2": 6, "fp6_e2m3": 6, "fp8_e4m3": 8, "int8": 8, "int4": 4, "uint4": 4}


def read_quark(fields: Fields) -> Quantizer:
    everywhere = fields.child("global_quant_config")
    stated = everywhere.has("weight")
    rules = (*_exceptions(fields), QuantizerRule(_scheme(everywhere) if stated else Scheme("quark", 8, floating=True)))
    kinds = dict.fromkeys(kind for kind in map(_kind, _tensors(everywhere, "weight")) if kind)
    return Quantizer(
        "quark",
        rules,
        Ignored((*fields.texts("exclude"), "lm_head")),
        description=f"Quark {' and '.join(kinds) or 'fp8'}"[:60],
        assumed="" if stated and all(one.has("dtype") for one in _tensors(everywhere, "weight")) else "8 bits",
    )


def _exceptions(fields: Fields) -> Iterator[QuantizerRule]:
    """The ways of single modules: by wildcards, or by a text that vLLM's name of the module is a part of."""
    modules = fields.child("layer_quant_config")
    for pattern in modules.entries(MOST_RULES):
        figures = modules.child(pattern)
        if not figures.has("weight"):
            continue  # the cache's alone
        targets = Ignored((pattern,)) if "*" in pattern else Ignored(exact=(pattern,))
        yield QuantizerRule(_scheme(figures), targets)


def _tensors(figures: Fields, name: str) -> tuple[Fields, ...]:
    """What is said of weights or inputs: one way, or a list of those that lie over one another."""
    value = figures.raw(name)
    if isinstance(value, Mapping):
        return (figures.child(name),)
    return figures.objects(name) if value is not None else ()


def _kind(tensors: Fields) -> str:
    return tensors.text("dtype", default="fp8_e4m3")


def _scheme(figures: Fields) -> Scheme:
    weights, inputs = _tensors(figures, "weight"), _tensors(figures, "input_tensors")
    kinds = [_kind(one) for one in weights]
    static = bool(inputs) and not inputs[0].flag("is_dynamic")
    if kinds == ["fp4", "fp8_e4m3"]:
        return replace(NVFP4, method="quark")
    if kinds == ["fp8_e4m3", "int4"]:
        return Scheme("quark", 4, input_scale=static)  # 4 bits with a scale per channel, and one for them all
    if len(weights) != 1 or kinds[0] not in _BITS:
        raise UserError(
            f"unsupported quantization: Quark's weights of {quoted(' and '.join(kinds)[:40])} are not among those that "
            "vLLM has",
            hint=f"Types that can be planned: {', '.join(_BITS)}.",
        )
    return _single(weights[0], kinds[0], static=static, weight_only=not inputs)


def _single(weights: Fields, kind: str, *, static: bool, weight_only: bool) -> Scheme:
    granularity = weights.text("qscheme", default="per_tensor")
    bits, floating = _BITS[kind], kind.startswith("fp")
    if floating and bits < 8:
        return replace(MXFP4, method="quark", bits=bits, weight_only=weight_only)
    if not floating and bits == 4:
        group = weights.integer("group_size", default=128)
        return Scheme("quark", 4, group=group, scale_bytes=2, zero_points=True, weight_only=True)
    block: tuple[int, ...] = weights.integers("block_size", low=1) if granularity == "per_block" else ()
    exponent = "e8m0" in weights.text("scale_type") + weights.text("scale_format")
    if floating and (granularity == "per_group" or (exponent and block and block[-1] == _MX_GROUP)):
        return Scheme("quark", 8, floating=True, group=_MX_GROUP, scale_bytes=1)
    if granularity == "per_block":
        rows, columns = block if len(block) == 2 else (128, 128)
        return Scheme("quark", 8, floating=floating, block=(rows, columns), scale_bytes=1 if exponent else 4)
    group = -1 if granularity == "per_tensor" else 0
    return Scheme("quark", 8, floating=floating, group=group, input_scale=static)


_MX_GROUP = 32
