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

_TABLES = ("dense", "moe", "latent", "hybrid")
"""Modules of architectures that are a row each, searched in this order."""

_FILES = {
    "attention.arctic": ("ArcticForCausalLM",),
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
    "attention.hy_v4": ("HYV4ForCausalLM",),
    "attention.inkling": ("InklingForCausalLM",),
    "attention.longcat": ("LongcatFlashForCausalLM", "LongcatFlashNgramForCausalLM"),
    "attention.mimo_v2": ("MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"),
    "attention.minimax_m3": ("MiniMaxM3ForCausalLM", "MiniMaxM3SparseForCausalLM"),
    "recurrent.minimax_text": ("MiniMaxForCausalLM", "MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM"),
    "recurrent.mobius": ("InternS2MobiusForCausalLM",),
    "attention.molmo": ("Molmo2TextModel", "MolmoModel"),
    "attention.moondream3": ("Moondream3TextModel",),
    "recurrent.nemotron_h": ("NemotronHForCausalLM", "NemotronHPuzzleForCausalLM"),
    "recurrent.olmo_hybrid": ("OlmoHybridForCausalLM",),
    "attention.ouro": ("HrmTextForCausalLM", "IQuestLoopCoderForCausalLM", "OuroForCausalLM"),
    "attention.pangu": ("PanguEmbeddedForCausalLM", "PanguProMoEV2ForCausalLM"),
    "recurrent.plamo2": ("Plamo2ForCausalLM",),
    "recurrent.qwen4": ("Qwen4ExpForCausalLM",),
    "attention.step3": ("Step3TextForCausalLM", "Step3p5ForCausalLM", "Step3p7FlashForCausalLM"),
    "recurrent.zamba2": ("Zamba2ForCausalLM",),
}  # fmt: skip
"""Architectures with code of their own, by module."""

_MODULES = {name: module for module, names in _FILES.items() for name in names}


def row_of(architecture: str) -> DecoderRow | None:
    """The row of a text architecture, or None if there is none."""
    for module in (_MODULES[architecture],) if architecture in _MODULES else _TABLES:
        row = _rows(module).get(architecture)
        if row is not None:
            return row
    return None


def known_architectures() -> tuple[str, ...]:
    """Every text architecture that can be read, sorted. Imports the tables."""
    return tuple(sorted({*_MODULES, *(name for module in _TABLES for name in _rows(module))}))


def _rows(module: str) -> Mapping[str, DecoderRow]:
    rows: Mapping[str, DecoderRow] = import_module(f"rayllm_ctl.catalog.modelconfig.decoders.{module}").ROWS
    return rows
