"""Finds the row of a text architecture, which goes by the name in config.json's `architectures`.

Only the module that holds the row is imported, as a command reads one model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from rayllm_ctl.catalog.modelconfig.decoders.spec import DecoderSpec
from rayllm_ctl.catalog.modelconfig.fields import Fields

Row = DecoderSpec | Callable[[Fields], DecoderSpec]
"""A row, or what chooses one by the config."""

_TABLES = ("dense", "moe", "latent", "hybrid")
"""Modules of architectures that are a row each, searched in this order."""

_FILES = {
    "arctic": ("ArcticForCausalLM",),
    "bailing": (
        "BailingMoeForCausalLM", "BailingMoeV2ForCausalLM", "BailingMoeV2_5ForCausalLM", "BailingMoeV3ForCausalLM",
        "SarvamMoEForCausalLM",
    ),
    "deci": ("DeciLMForCausalLM",),
    "deepseek_v4": ("DeepseekV4ForCausalLM",),
    "eagle": (
        "Eagle3LlamaForCausalLM", "Eagle3Qwen2_5vlForCausalLM", "Eagle3Qwen3ForCausalLM", "Eagle3Qwen3vlForCausalLM",
        "LlamaForCausalLMEagle3",
    ),
    "ernie45_vl": ("Ernie4_5_VLMoeForCausalLM",),
    "gemma": ("Gemma3nForCausalLM", "Gemma4ForCausalLM"),
    "hy_v4": ("HYV4ForCausalLM",),
    "inkling": ("InklingForCausalLM",),
    "longcat": ("LongcatFlashForCausalLM", "LongcatFlashNgramForCausalLM"),
    "mimo_v2": ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"),
    "minimax_m3": ("MiniMaxM3ForCausalLM", "MiniMaxM3SparseForCausalLM"),
    "minimax_text": ("MiniMaxForCausalLM", "MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM"),
    "mobius": ("InternS2MobiusForCausalLM",),
    "molmo": ("Molmo2TextModel", "MolmoModel"),
    "moondream3": ("Moondream3TextModel",),
    "nemotron_h": ("NemotronHForCausalLM", "NemotronHPuzzleForCausalLM"),
    "olmo_hybrid": ("OlmoHybridForCausalLM",),
    "ouro": ("HrmTextForCausalLM", "IQuestLoopCoderForCausalLM", "OuroForCausalLM"),
    "pangu": ("PanguEmbeddedForCausalLM", "PanguProMoEV2ForCausalLM"),
    "plamo2": ("Plamo2ForCausalLM",),
    "qwen4": ("Qwen4ExpForCausalLM",),
    "step3": ("Step3TextForCausalLM", "Step3p5ForCausalLM", "Step3p7FlashForCausalLM"),
    "zamba2": ("Zamba2ForCausalLM",),
}  # fmt: skip
"""Architectures with code of their own, by module."""

_MODULES = {name: module for module, names in _FILES.items() for name in names}


def row_of(architecture: str) -> Row | None:
    """The row of a text architecture, or None where there is none."""
    for module in (_MODULES[architecture],) if architecture in _MODULES else _TABLES:
        row = _rows(module).get(architecture)
        if row is not None:
            return row
    return None


def known_architectures() -> tuple[str, ...]:
    """Every text architecture that can be read, sorted. Imports the tables."""
    return tuple(sorted({*_MODULES, *(name for module in _TABLES for name in _rows(module))}))


def _rows(module: str) -> Mapping[str, Row]:
    rows: Mapping[str, Row] = import_module(f"rayllm_ctl.catalog.modelconfig.decoders.{module}").ROWS
    return rows
