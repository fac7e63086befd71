"""config.json to ModelFacts: a row per architecture, no rule per model.

A decoder (decoders/) is a mixer of tokens and a dense or MoE block for each layer; an encoder (encoders/) is a
transformer with its sizes, a projector and the largest item that vLLM profiles.
"""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.read import compact, read_config

__all__ = ["compact", "read_config"]
