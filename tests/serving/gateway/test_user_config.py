"""`user_config` is read strictly: every value has its effect or an error that names its path."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.serving.gateway.reader import SettingsError
from rayllm_ctl.serving.gateway.settings import (
    Bounds,
    Cleaning,
    GatewaySettings,
    Rate,
    RateLimits,
    RedisSettings,
)
from rayllm_ctl.serving.gateway.user_config import read_gateway, read_models


def test_no_gateway_and_all_defaults() -> None:
    assert read_gateway(None) is None
    assert read_gateway({}) == GatewaySettings()


def test_all_fields() -> None:
    settings = read_gateway(
        {
            "validation": {
                "maxBodyBytes": 1000,
                "maxDepth": 8,
                "maxMessages": 4,
                "bodyTimeout": 2.5,
                "promptCharacters": {"min": 1, "max": 100},
                "promptTokens": {"min": None, "max": 50},
                "outputTokens": {"max": 7, "exceeding": "reject"},
                "stopSequences": {"max": 2, "maxLength": 9},
                "parameters": ["temperature"],
            },
            "cleaning": {"remove": ["bidi"], "characters": "\u200b", "normalization": "NFC"},
            "keys": {"directory": "/keys"},
            "limits": {
                "perKey": {"requests": "60/minute", "tokens": "1000/10 minutes"},
                "perAddress": {"requests": "5/second"},
                "redis": {"url": "redis://redis:6380/0", "prefix": "llm/qwen"},
                "onRedisFailure": "deny",
                "trustedProxies": 1,
            },
            "queue": {"maxPending": 64},
            "cors": {"origins": ["https://chat.example.com"]},
            "docs": True,
        }
    )
    assert settings is not None
    validation = settings.validation
    assert (validation.max_body_bytes, validation.max_depth, validation.max_messages) == (1000, 8, 4)
    assert (validation.body_timeout, validation.prompt_characters, validation.prompt_tokens) == (
        2.5,
        Bounds(1, 100),
        Bounds(None, 50),
    )
    assert (validation.output_tokens.max, validation.output_tokens.exceeding) == (7, "reject")
    assert (validation.stop_sequences.max, validation.stop_sequences.max_length) == (2, 9)
    assert validation.parameters == frozenset({"temperature"})
    assert settings.cleaning == Cleaning(frozenset({"bidi"}), "\u200b", "NFC")
    assert settings.keys is not None
    assert settings.keys.directory == "/keys"
    assert settings.limits is not None
    assert settings.limits.per_key == RateLimits(Rate(60, 60), Rate(1000, 600))
    assert settings.limits.per_address == RateLimits(Rate(5, 1))
    assert (settings.limits.redis, settings.limits.on_redis_failure) == (
        RedisSettings("redis://redis:6380/0", "llm/qwen"),
        "deny",
    )
    assert settings.limits.trusted_proxies == 1
    assert settings.queue is not None
    assert settings.queue.max_pending == 64
    assert settings.cors is not None
    assert settings.cors.origins == ("https://chat.example.com",)
    assert settings.docs


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "gateway: must be a mapping, not a list"),
        ({"doc": True}, "gateway.doc: unknown field; known are cleaning, cors, docs, keys, limits, queue, validation"),
        ({"docs": 1}, "gateway.docs: must be a boolean, not an integer"),
        ({"queue": {"maxPending": True}}, "gateway.queue.maxPending: must be an integer, not a boolean"),
        ({"queue": {"maxPending": -1}}, "gateway.queue.maxPending: -1 is less than 0"),
        ({"queue": {}}, "gateway.queue.maxPending: must be an integer, not null"),
        ({"validation": {"maxDepth": 0}}, "gateway.validation.maxDepth: 0 is less than 1"),
        ({"validation": {"bodyTimeout": 0}}, "gateway.validation.bodyTimeout: 0 is not a positive number of seconds"),
        (
            {"validation": {"promptTokens": {"min": 9, "max": 3}}},
            "gateway.validation.promptTokens.max: 3 is less than gateway.validation.promptTokens.min (9)",
        ),
        (
            {"validation": {"outputTokens": {"exceeding": "cut"}}},
            "gateway.validation.outputTokens.exceeding: must be clamp or reject",
        ),
        (
            {"cleaning": {"remove": ["emoji"]}},
            "gateway.cleaning.remove[0]: must be nul or control or bidi or surrogates",
        ),
        (
            {"limits": {"perKey": {"tokens": "0/minute"}}},
            "gateway.limits.perKey.tokens: must have the form 60/minute or 1000/10 minutes (second, minute, hour, day)",
        ),
        ({"keys": {"directory": ""}}, "gateway.keys.directory: must not be empty"),
        ({"cors": {"origins": "*"}}, "gateway.cors.origins: must be a list, not a string"),
    ],
)
def test_errors_name_the_path(value: Any, message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_gateway(value)
    assert str(raised.value) == message


def test_models() -> None:
    given = {
        "id": "a/b",
        "application": "talk-b",
        "deployment": "LLMServer:a--b",
        "maxModelLen": 4096,
        "tokenizer": "/models/b",
        "adapters": [{"id": "b-sql", "path": "/adapters/sql"}],
    }
    (model,) = read_models([given])
    assert (model.id, model.max_model_len, model.tokenizer) == ("a/b", 4096, "/models/b")
    assert model.adapters[0].id == "b-sql"
    assert model.engine == "vllm"
    assert read_models([{**given, "engine": "transformers"}])[0].engine == "transformers"
    with pytest.raises(SettingsError, match=r"models\[0\].engine: must be vllm or transformers"):
        read_models([{**given, "engine": "tgi"}])
    with pytest.raises(SettingsError, match=r'models\[1\].id: "b-sql" is the id of another model or adapter'):
        read_models([given, {"id": "b-sql", "application": "x", "deployment": "y"}])
    with pytest.raises(SettingsError, match=r"models\[0\].deployment: required"):
        read_models([{"id": "x", "application": "x"}])
