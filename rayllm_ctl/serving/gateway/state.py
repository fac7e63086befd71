"""What a gateway works with, replaced as one object so that no request sees half a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rayllm_ctl.serving.gateway.body.cleaning import Removal
from rayllm_ctl.serving.gateway.body.tokens import Tokenizers
from rayllm_ctl.serving.gateway.settings import Bounds, GatewaySettings, Model
from rayllm_ctl.serving.gateway.steps import Client, Keys, Limits, Metrics, Queue
from rayllm_ctl.serving.gateway.telemetry import NoMetrics


@dataclass(frozen=True, slots=True)
class State:
    """Immutable; the objects of the steps are shared with the state that follows unless their settings changed."""

    settings: GatewaySettings
    models: Mapping[str, Model]
    tokenizers: Tokenizers
    keys: Keys | None = None
    limits: Limits | None = None
    queue: Queue | None = None
    metrics: Metrics = field(default_factory=NoMetrics)
    removal: Removal | None = field(init=False)
    """What cleaning removes from prompts."""

    def __post_init__(self) -> None:
        cleaning = self.settings.cleaning
        object.__setattr__(self, "removal", Removal(cleaning) if cleaning else None)

    def limits_tokens(self, client: Client) -> bool:
        """Whether the tokens of this client are limited, so that they have to be counted."""
        settings = self.settings.limits
        if self.limits is None or settings is None:
            return False
        limits = [settings.per_address, settings.per_key, *([client.limits] if client.limits else [])]
        return any(limit.tokens is not None for limit in limits)

    def bounds_tokens(self) -> bool:
        """Whether the tokens of prompts are bounded."""
        return self.settings.validation.prompt_tokens != Bounds()
