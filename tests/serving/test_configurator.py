"""What an ingress replica keeps and replaces when the settings of its gateway change."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.serving.configurator import Configurator
from rayllm_ctl.serving.gateway.limits.limiter import RateLimiter
from rayllm_ctl.serving.gateway.middleware import Gateway
from rayllm_ctl.serving.gateway.settings import Model
from rayllm_ctl.serving.gateway.state import State
from rayllm_ctl.serving.gateway.telemetry import NoMetrics
from rayllm_ctl.serving.gateway.user_config import read_gateway
from rayllm_ctl.serving.serve_load import ServeLoad

MODELS = (Model("chat", "llm-chat", "LLMServer:chat"),)
LIMITS = {"perKey": {"requests": "60/minute"}}


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application."""


def ingress(value: object) -> Any:
    raise AssertionError(value)


def configured() -> tuple[Gateway, Configurator]:
    gateway = Gateway(nothing)
    return gateway, Configurator(gateway, ServeLoad(lambda: ingress("unused")), NoMetrics())


def state(gateway: Gateway, configurator: Configurator, **settings: object) -> State:
    configurator.configure(MODELS, read_gateway(settings))
    assert gateway.state is not None
    return gateway.state


def test_steps_go_on_unless_their_settings_change(tmp_path: Path) -> None:
    gateway, configurator = configured()
    keys = {"directory": str(tmp_path)}
    first = state(gateway, configurator, keys=keys, limits=LIMITS)
    second = state(gateway, configurator, keys=keys, limits=LIMITS, queue={"maxPending": 4})
    assert second.keys is first.keys is not None
    assert second.limits is first.limits is not None
    assert second.queue is first.queue is not None
    assert second.tokenizers is first.tokenizers
    assert dict(second.models) == {"chat": MODELS[0]}
    third = state(gateway, configurator, limits={"perKey": {"requests": "1/minute"}})
    assert third.keys is None
    assert third.limits is not None
    assert third.limits is not second.limits


def test_replaced_limits_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[RateLimiter] = []

    async def close(self: RateLimiter) -> None:
        closed.append(self)

    monkeypatch.setattr(RateLimiter, "close", close)
    gateway, configurator = configured()
    first = state(gateway, configurator, limits=LIMITS).limits
    configurator.configure(MODELS, None)
    assert gateway.state is None
    assert closed == []
    asyncio.run(configurator.close_replaced())
    assert closed == [first]


def test_settings_that_fail_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, configurator = configured()
    before = state(gateway, configurator, limits=LIMITS)
    monkeypatch.setitem(__import__("sys").modules, "rayllm_ctl.serving.gateway.limits.redis_store", None)
    with pytest.raises(ImportError):
        configurator.configure(MODELS, read_gateway({"limits": {**LIMITS, "redis": {"url": "redis://x"}}}))
    assert gateway.state is before
    assert state(gateway, configurator, limits=LIMITS).limits is before.limits
