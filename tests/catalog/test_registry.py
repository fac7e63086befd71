"""What the tables of architectures name exists, and reading one model imports only what it needs."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from rayllm_ctl.catalog.modelconfig.decoders import registry as decoders
from rayllm_ctl.catalog.modelconfig.encoders.registry import ENCODERS

_READ = """
import sys
from rayllm_ctl.catalog import models
from rayllm_ctl.catalog.modelconfig import read_config
read_config(models.find_model({name!r}).config)
prefix = "rayllm_ctl.catalog.modelconfig."
print(*(name.removeprefix(prefix) for name in sys.modules if name.startswith(prefix)))
"""


def imported_for(name: str) -> set[str]:
    """Modules of modelconfig's tables that a fresh interpreter imports to read a model of the catalog."""
    shown = subprocess.run([sys.executable, "-c", _READ.format(name=name)], capture_output=True, text=True, check=True)
    common = {"decoders", "decoders.decoder", "decoders.patterns", "decoders.registry", "decoders.spec"}
    common.add("decoders.attention")
    common |= {"encoders", "encoders.registry", "encoders.sizes", "encoders.source", "encoders.spec"}
    return {module for module in shown.stdout.split() if "coders" in module} - common


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("Qwen/Qwen3-32B", {"decoders.dense"}),
        ("deepseek-ai/DeepSeek-V4-Flash", {"decoders.attention.deepseek_v4", "decoders.latent", "decoders.moe"}),
        ("Qwen/Qwen2.5-VL-7B-Instruct", {"decoders.dense", "encoders.qwen_vl"}),
    ],
)
def test_reading_a_model_imports_the_modules_of_its_architecture(name: str, modules: set[str]) -> None:
    assert imported_for(name) == modules


def test_every_text_architecture_has_a_row() -> None:
    assert [name for name in decoders.known_architectures() if decoders.row_of(name) is None] == []


def missing_of(name: str) -> list[str]:
    """What the row of a multimodal architecture names and is not there."""
    spec = ENCODERS[name]
    lacking = []
    for reference in (spec.vision, spec.audio, spec.text if ":" in spec.text else ""):
        module, _, attribute = reference.partition(":")
        if module and not hasattr(import_module(f"rayllm_ctl.catalog.modelconfig.encoders.{module}"), attribute):
            lacking.append(reference)
    return lacking if ":" in spec.text or decoders.row_of(spec.text) is not None else [*lacking, spec.text]


def test_what_a_multimodal_architecture_names_exists() -> None:
    assert {name: lacking for name in ENCODERS if (lacking := missing_of(name))} == {}
