"""Which deployment answers for a model, and what the list of models says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rayllm_ctl.serving.gateway.settings import Adapter, Model
from rayllm_ctl.serving.routes import ModelNotReady, Routes, UnknownModel

CHAT = Model(
    "org/chat", "llm-chat", "LLMServer:org--chat", max_model_len=4096, adapters=(Adapter("sql", "/loras/sql"),)
)
CODE = Model("code", "llm-code", "LLMServer:code")


class Handle:
    """Stands for a handle; `options` records what it was asked for."""

    def __init__(self, deployment: str) -> None:
        self.deployment, self.stream = deployment, False

    def options(self, *, stream: bool) -> Handle:
        self.stream = stream
        return self


def connected(*models: Model, missing: tuple[str, ...] = ()) -> Routes:
    async def connect(deployment: str, application: str) -> Any:
        if application in missing:
            raise KeyError(application)
        return Handle(deployment)

    return asyncio.run(Routes.connect(models, connect))


def test_models_and_adapters_have_the_handle_of_their_model() -> None:
    routes = connected(CHAT, CODE)
    assert routes.complete
    for name in ("org/chat", "sql"):
        handle = routes.handle(name)
        assert isinstance(handle, Handle)
        assert (handle.deployment, handle.stream) == ("LLMServer:org--chat", True)
    assert set(routes.handles()) == {"org/chat", "code"}


def test_a_deployment_that_is_not_there_is_not_ready() -> None:
    routes = connected(CHAT, CODE, missing=("llm-chat",))
    assert not routes.complete
    assert set(routes.handles()) == {"code"}
    for name in ("org/chat", "sql"):
        with pytest.raises(ModelNotReady):
            routes.handle(name)
    assert [card["id"] for card in routes.cards()["data"]] == ["org/chat", "sql", "code"]


def test_unknown_models() -> None:
    routes = connected(CHAT, CODE)
    for call in (routes.handle, routes.model_id, routes.card):
        with pytest.raises(UnknownModel):
            call("org/chat:sql")
    with pytest.raises(UnknownModel):
        routes.model_id(None)


def test_without_a_name_the_only_model_is_meant() -> None:
    assert connected(CHAT).model_id(None) == "org/chat"
    assert connected(CHAT).model_id("sql") == "sql"


def test_cards_name_no_path() -> None:
    cards = connected(CHAT, CODE).cards()
    assert cards["object"] == "list"
    model, adapter, other = cards["data"]
    assert model == {"id": "org/chat", "object": "model", "created": 0, "owned_by": "rayllm", "max_model_len": 4096}
    assert adapter == {**model, "id": "sql", "parent": "org/chat"}
    assert "max_model_len" not in other
    assert "/loras" not in str(cards)
