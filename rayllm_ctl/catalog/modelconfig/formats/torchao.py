"""quantization_config of torchao: one way, or one for each module (quantization/torchao.py, vLLM 0.33)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.catalog.modelconfig.ignore import Ignored, below
from rayllm_ctl.catalog.modelconfig.quantizer import FP8_TENSOR, Quantizer, QuantizerRule
from rayllm_ctl.model.plan.facts import Scheme

_BY_MODULE = ("module_fqn_to_config", "fqn_to_config")
_OTHERS = "_default"


def read_torchao(fields: Fields) -> Quantizer:
    skipped = [*fields.texts("modules_to_not_convert"), "lm_head"]
    kind = fields.raw("quant_type")
    rules = tuple(_rules(kind))
    assumed = "8 bits" if any(not _is_named(way) for way in _ways(kind)) else ""
    # vLLM skips a module if the parts of its name contain those of the entry (should_skip).
    ignored = Ignored(f"re:(?:.*\\.)?{re.escape(below(name))}(?:\\.|$)" for name in skipped)
    return Quantizer("torchao", rules, ignored, description="torchao", assumed=assumed)


def _rules(kind: Any) -> Iterator[QuantizerRule]:
    modules = _by_module(kind)
    if modules is None:
        yield QuantizerRule(_scheme(kind))
        return
    for name, way in sorted(modules.items(), key=lambda item: str(item[0]).startswith("re:")):
        if name == _OTHERS:
            continue
        targets = Ignored((f"re:(?:{name[3:]})$",)) if name.startswith("re:") else Ignored(exact=(name,))
        yield QuantizerRule(None if way is None else _scheme(way), targets)
    if modules.get(_OTHERS) is not None:
        yield QuantizerRule(_scheme(modules[_OTHERS]))


def _ways(kind: Any) -> tuple[Any, ...]:
    modules = _by_module(kind)
    return (kind,) if modules is None else tuple(way for way in modules.values() if way is not None)


def _is_named(way: Any) -> bool:
    """Whether a configuration class is one of those whose sizes are known by its name."""
    return any(word in _text(way) for word in ("float8", "int4", "int8"))


def _by_module(kind: Any) -> dict[str, Any] | None:
    """The ways by module; None if all have the same."""
    default = kind.get("default") if isinstance(kind, Mapping) else None
    data = default.get("_data") if isinstance(default, Mapping) else None
    if not isinstance(data, Mapping):
        return None
    for name in _BY_MODULE:
        modules = data.get(name)
        if isinstance(modules, Mapping):
            return {key: way for key, way in modules.items() if isinstance(key, str)}
    return None


def _scheme(kind: Any) -> Scheme:
    """Of one configuration class, by its name and its sizes."""
    text = _text(kind)
    if "float8" in text and "int4" not in text:
        scheme = replace(FP8_TENSOR, group=0)
    elif "int4" in text:
        group = re.search(r"group_size\D{1,4}(\d{1,5})", text)
        scheme = Scheme("torchao", 4, group=int(group[1]) if group else 128, scale_bytes=2, zero_points=True)
    else:
        scheme = Scheme("torchao", 8, scale_bytes=4)
    return replace(scheme, method="torchao")


def _text(way: Any) -> str:
    return str(way)[:2000].lower()
