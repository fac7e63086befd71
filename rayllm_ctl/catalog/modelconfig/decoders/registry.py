"""Finds the row of a text architecture, which goes by the name in config.json's `architectures`.

Only the module that holds the row is imported, as a command reads one model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec
from rayllm_ctl.catalog.modelconfig.fields import Fields

DecoderRow = DecoderSpec | Callable[[Fields], DecoderSpec]
"""A row, or what chooses one by the config."""

_PACKAGE = "rayllm_ctl.catalog.modelconfig.decoders"

_TABLES = ("dense", "moe", "latent", "hybrid")
"""Modules of architectures that are a row each, searched in this order."""

_FILES = {
    "recurrent.bailing": (
        "BailingMoeForCausalLM", "BailingMoeV2ForCausalLM", "BailingMoeV2_5ForCausalLM", "BailingMoeV3ForCausalLM",
        "SarvamMoEForCausalLM",
    ),
    "attention.deci": ("DeciLMForCausalLM",),
    "attention.deepseek_v4": ("DeepseekV4ForCausalLM",),
    "attention.eagle": (
        "Eagle3LlamaForCausalLM", "Eagle3Qwen2_5vlForCausalLM", "Eagle3Qwen3ForCausalLM", "Eagle3Qwen3vlForCausalLM",
        "LlamaForCausalLMEagle3",
    ),
    "attention.ernie45_vl": ("Ernie4_5_VLMoeForCausalLM",),
    "attention.gemma": ("Gemma3nForCausalLM", "Gemma4ForCausalLM"),
    "attention.inkling": ("InklingForCausalLM",),
    "attention.longcat": ("LongcatFlashForCausalLM", "LongcatFlashNgramForCausalLM"),
    "attention.mimo_v2": ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"),
    "attention.minimax_m3": ("MiniMaxM3ForCausalLM", "MiniMaxM3SparseForCausalLM"),
    "recurrent.mobius": ("InternS2MobiusForCausalLM",),
    "attention.molmo": ("Molmo2TextModel", "MolmoModel"),
    "attention.moondream3": ("Moondream3TextModel",),
    "recurrent.nemotron_h": ("NemotronHForCausalLM", "NemotronHPuzzleForCausalLM"),
    "recurrent.qwen4": ("Qwen4ExpForCausalLM",),
    "attention.step3": ("Step3TextForCausalLM", "Step3p5ForCausalLM", "Step3p7FlashForCausalLM"),
}  # fmt: skip
"""Architectures with code of their own, by module."""

_BY_FIELDS = ("OlmoHybridForCausalLM", "OuroForCausalLM")
"""Architectures whose usual fields say all, as a comparison with vLLM's own objects shows."""

_MODULES = {name: module for module, names in _FILES.items() for name in names}


def row_of(architecture: str) -> DecoderRow | None:
    """The row of a text architecture, or None if there is none."""
    if architecture in _BY_FIELDS:
        return row_by_fields
    for module in (_MODULES[architecture],) if architecture in _MODULES else _TABLES:
        row = _rows(module).get(architecture)
        if row is not None:
            return row
    return None


def row_by_fields(fields: Fields) -> DecoderSpec:
    """The row of an architecture that has none, by the fields of its config."""
    read: Callable[[Fields], DecoderSpec] = import_module(f"{_PACKAGE}.generic").generic_row
    return read(fields)


def known_architectures() -> tuple[str, ...]:
    """Every text architecture that can be read, sorted. Imports the tables."""
    return tuple(sorted({*_MODULES, *_BY_FIELDS, *(name for module in _TABLES for name in _rows(module))}))


def _rows(module: str) -> Mapping[str, DecoderRow]:
    rows: Mapping[str, DecoderRow] = import_module(f"{_PACKAGE}.{module}").ROWS
    return rows
