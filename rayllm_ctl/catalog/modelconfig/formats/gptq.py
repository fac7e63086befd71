"""quantization_config of GPTQ and AutoRound: which modules are stored otherwise than the rest.

Read in vLLM 0.19, 0.22, 0.29 and 0.33 (quantization/utils/gptq_utils.py, auto_gptq.py, inc).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.ignore import MOST_RULES, Ignored, below, too_large
from rayllm_ctl.catalog.modelconfig.quantizer import (
    FP8_BLOCK,
    MXFP4,
    MXFP8,
    Quantizer,
    QuantizerRule,
    assumed_sizes,
)
from rayllm_ctl.model.plan.facts import Scheme

_UNQUANTIZED = 16
"""Bits with which AutoRound says that a module is not quantized."""

_SPECIAL = frozenset("*+?^$()[]{}|\\")
"""A name with one of these is an expression to AutoRound."""


def read_gptq(fields: Fields) -> Quantizer:
    bits = fields.integer("bits", default=4, high=8)
    group = fields.integer("group_size", default=128, low=-1)
    scheme = Scheme(
        "gptq",
        bits,
        group=max(group, 0),
        scale_bytes=2,
        zero_points=True,
        activation_order=fields.flag("desc_act"),
        weight_only=True,
    )
    head = fields.flag("lm_head")
    ignored = Ignored(fields.texts("modules_to_not_convert") + (() if head else ("lm_head",)))
    rules = (*_dynamic(fields, scheme), *_exceptions(fields, scheme), QuantizerRule(scheme, _quantized_modules(fields)))
    assumed = assumed_sizes(fields, bits, group, ("bits",), ("group_size",))
    about = f"GPTQ {bits} bit, groups of {group}"
    needs = frozenset() if fields.flag("sym", default=True) else frozenset({"asymmetric-gptq"})
    return Quantizer("gptq", rules, ignored, description=about, head=head, assumed=assumed, needs=needs)


def read_autoround(fields: Fields) -> Quantizer:
    """AutoRound's format (Intel Neural Compressor): integers as GPTQ packs them, or floats in groups or blocks with one
    number of bits for all modules that are quantized (quantization/inc/inc.py, 0.33; integers alone in 0.22)."""
    kind = fields.text("data_type", default="int")
    if "mx_fp" in kind:
        scheme, need = MXFP4 if fields.integer("bits", default=4, high=8) == 4 else MXFP8, "autoround-mx"
        about = f"AutoRound mxfp{scheme.bits}"
    elif kind in ("fp", "fp8"):
        block = fields.integers("group_size", low=1) or (128, 128)
        scheme, need = replace(FP8_BLOCK, block=(block[0], block[-1])), "autoround-fp8"
        about = f"AutoRound fp8 in blocks of {block[0]}x{block[-1]}"
    else:
        return _renamed(read_gptq(fields))
    assumed = "" if fields.has("bits") or "mx_fp" not in kind else f"{scheme.bits} bits"
    scheme = replace(scheme, method="inc")
    rules = (*_exceptions(fields, scheme), QuantizerRule(scheme, _quantized_modules(fields)))
    return Quantizer("inc", rules, Ignored(("lm_head",)), description=about, assumed=assumed, needs=frozenset({need}))


def _renamed(quantizer: Quantizer) -> Quantizer:
    """AutoRound's weights in GPTQ's packing, which vLLM reads by a method of another name."""
    rules = tuple(
        replace(rule, scheme=replace(rule.scheme, method="inc")) if rule.scheme else rule for rule in quantizer.rules
    )
    return replace(quantizer, method="inc", rules=rules)


def _dynamic(fields: Fields, scheme: Scheme) -> Iterator[QuantizerRule]:
    """GPTQModel's expressions by module: with `-:` it is not quantized, else it has figures of its own. The first one
    that matches counts."""
    rules = fields.child("dynamic")
    for pattern in rules.entries(MOST_RULES):
        targets = Ignored((f"re:{pattern.removeprefix('-:').removeprefix('+:')}",))
        if pattern.startswith("-:"):
            yield QuantizerRule(None, targets)
        elif rules.raw(pattern):
            yield QuantizerRule(_changed(scheme, rules.child(pattern)), targets)


def _exceptions(fields: Fields, scheme: Scheme) -> tuple[QuantizerRule, ...]:
    """AutoRound's figures by module, by full names first and then by expressions."""
    modules = fields.child("extra_config")
    named: dict[Scheme | None, list[str]] = {}
    expressions: list[QuantizerRule] = []
    for name in modules.entries():
        changed = _excepted(scheme, modules.child(name))
        if _SPECIAL.isdisjoint(name):
            named.setdefault(changed, []).append(name)
        else:
            expressions.append(QuantizerRule(changed, Ignored((f"re:.*{name}",))))
        if len(expressions) > MOST_RULES:
            raise too_large(f"more than {MOST_RULES} expressions in extra_config")
    return (*(QuantizerRule(changed, Ignored(exact=names)) for changed, names in named.items()), *expressions)


def _excepted(scheme: Scheme, figures: Fields) -> Scheme | None:
    kept = figures.integer("bits", default=scheme.bits, high=64) >= _UNQUANTIZED
    return None if kept else _changed(scheme, figures)


def _changed(scheme: Scheme, figures: Fields) -> Scheme:
    bits = figures.integer("bits", default=scheme.bits, high=8)
    if scheme.floating:
        return replace(scheme, bits=bits)
    group = figures.integer("group_size", default=scheme.group, low=-1)
    order = figures.flag("desc_act", default=scheme.activation_order)
    return replace(scheme, bits=bits, group=max(group, 0), activation_order=order)


def _quantized_modules(fields: Fields) -> Ignored | None:
    """The modules that are quantized, where the config lists them; None: all."""
    blocks = _names(fields.raw("block_name_to_quantize", "to_quant_block_names"))
    if blocks:
        return Ignored(rf"re:{re.escape(below(f'{block}.'))}" for block in blocks)
    parts = _names(fields.raw("modules_in_block_to_quantize"))
    return Ignored(f"re:.*{re.escape(part)}" for part in parts) if parts else None


def _names(listed: Any) -> list[str]:
    """The texts of a list that may have lists in it, or of one text with commas."""
    if isinstance(listed, str):
        return [part.strip() for part in listed.split(",") if part.strip()]
    if not isinstance(listed, (list, tuple)):
        return []
    return [name for item in listed for name in (_names(item) if isinstance(item, (list, tuple)) else [item])
            if isinstance(name, str)]  # fmt: skip
