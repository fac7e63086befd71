"""The gateway's steps by settings that change while it runs."""

from __future__ import annotations

from collections.abc import Sequence

from rayllm_ctl.serving.gateway.body.tokens import Tokenizers
from rayllm_ctl.serving.gateway.keys import KeyDirectory
from rayllm_ctl.serving.gateway.limits.limiter import RateLimiter, open_limits
from rayllm_ctl.serving.gateway.middleware import Gateway
from rayllm_ctl.serving.gateway.queue import SharedQueue
from rayllm_ctl.serving.gateway.settings import GatewaySettings, KeySettings, LimitSettings, Model, by_name
from rayllm_ctl.serving.gateway.state import State
from rayllm_ctl.serving.gateway.steps import LoadSource, Metrics


class Configurator:
    """Gives a gateway its state. A step whose settings did not change continues with what it has counted and read."""

    def __init__(self, gateway: Gateway, source: LoadSource, metrics: Metrics) -> None:
        self._gateway = gateway
        self._metrics = metrics
        self._tokenizers = Tokenizers()
        self._queue = SharedQueue(None, source)
        self._keys: tuple[KeySettings, KeyDirectory] | None = None
        self._limits: RateLimiter | None = None
        self._replaced: list[RateLimiter] = []

    def configure(self, models: Sequence[Model], settings: GatewaySettings | None) -> None:
        """Let the gateway take up models and settings with its next request; None lets everything pass."""
        keys = self._keys_for(settings.keys if settings else None)
        limits = self._limits_for(settings.limits if settings else None)
        if settings is None:
            self._gateway.state = None
        else:
            self._queue.configure(settings.queue)
            self._gateway.state = State(
                settings=settings,
                models=by_name(models),
                tokenizers=self._tokenizers,
                keys=keys[1] if keys else None,
                limits=limits,
                queue=self._queue,
                metrics=self._metrics,
            )
        if self._keys is not None and self._keys is not keys:
            self._keys[1].close()
        if self._limits is not None and self._limits is not limits:
            self._replaced.append(self._limits)
        self._keys, self._limits = keys, limits

    async def close_replaced(self) -> None:
        """Let what is no longer used write what it has counted, and close its connections."""
        while self._replaced:
            await self._replaced.pop().close()

    def _keys_for(self, settings: KeySettings | None) -> tuple[KeySettings, KeyDirectory] | None:
        if settings is None or (self._keys is not None and self._keys[0] == settings):
            return self._keys if settings else None
        return settings, KeyDirectory(settings.directory)

    def _limits_for(self, settings: LimitSettings | None) -> RateLimiter | None:
        if settings is None or (self._limits is not None and self._limits.settings == settings):
            return self._limits if settings else None
        return open_limits(settings, self._metrics, self._limits)
