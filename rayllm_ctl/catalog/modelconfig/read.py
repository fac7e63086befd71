"""The two doors: read_config (config.json -> ModelFacts) and compact (config.json -> the fields that matter)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.facts import ModelFacts


def read_config(config: Mapping[str, Any], *, hf_quant_config: Mapping[str, Any] | None = None) -> ModelFacts:
    """The facts of a config.json. UsageError names the missing field or the unknown architecture."""
    raise NotImplementedError


def compact(config: Mapping[str, Any], *, hf_quant_config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The fields of a config.json that the facts come from: read_config(compact(c)) == read_config(c)."""
    raise NotImplementedError
