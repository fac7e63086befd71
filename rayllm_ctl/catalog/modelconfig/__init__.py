"""config.json to ModelFacts, by rules: one reader per family of architectures, none per model."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.read import compact, read_config

__all__ = ["compact", "read_config"]
