"""Fields of requests that only models of some engines have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rayllm_ctl.serving.gateway.body.endpoints import CHAT, COMPLETIONS, Endpoint
from rayllm_ctl.serving.gateway.body.fields import Field, integer, one_of
from rayllm_ctl.serving.gateway.errors import invalid
from rayllm_ctl.serving.gateway.settings import EngineKind

_STRATEGIES = one_of("greedy", "sampling", "beam_search", sampling=True)


def _strategy(value: Any, path: str) -> None:
    if value == "contrastive_search":
        reason = "transformers 5 has contrastive_search as code of a hub repository only, which is not run"
        raise invalid(f"{path}: {reason}; use greedy, sampling or beam_search", path, "unsupported_value")
    _STRATEGIES.check(value, path)


# What models of the Transformers engine know besides; `length_penalty` is a field of vLLM, too.
_STRATEGY: dict[str, Field] = {
    "decoding": Field(_strategy, _STRATEGIES.schema, sampling=True),
    "num_beams": integer(2, 128),
}
_TRANSFORMERS = {
    endpoint.path: replace(endpoint, fields={**endpoint.fields, **_STRATEGY}) for endpoint in (CHAT, COMPLETIONS)
}


def of_engine(endpoint: Endpoint, engine: EngineKind) -> Endpoint:
    """The endpoint with the fields that models of this engine have."""
    return _TRANSFORMERS.get(endpoint.path, endpoint) if engine == "transformers" else endpoint
