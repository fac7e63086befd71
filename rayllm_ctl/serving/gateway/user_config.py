"""`user_config` of the ingress: plain JSON in camel case, times in seconds, read strictly."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal, cast

from rayllm_ctl.serving.gateway.reader import (
    SettingsError,
    boolean,
    choice,
    fields,
    integer,
    items,
    kind,
    optional,
    seconds,
    text,
)
from rayllm_ctl.serving.gateway.settings import (
    CLASSES,
    Adapter,
    Bounds,
    Cleaning,
    CorsSettings,
    EngineKind,
    GatewaySettings,
    KeySettings,
    LimitSettings,
    Model,
    OutputTokens,
    QueueSettings,
    Rate,
    RateLimits,
    RedisSettings,
    StopSequences,
    Validation,
)

PERIODS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_RATE = re.compile(r"([1-9][0-9]{0,14})/(?:([1-9][0-9]{0,4}) ?)?(second|minute|hour|day)s?")


def read_models(value: object, path: str = "models") -> tuple[Model, ...]:
    """`user_config.models`. Raises SettingsError."""
    models = items(value, path, _model)
    seen: set[str] = set()
    for place, model in enumerate(models):
        for name in (model.id, *(adapter.id for adapter in model.adapters)):
            if name in seen:
                raise SettingsError(f'{path}[{place}].id: "{name}" is the id of another model or adapter')
            seen.add(name)
    return models


def _model(value: object, path: str) -> Model:
    known = {"id", "application", "deployment", "maxModelLen", "tokenizer", "adapters", "engine"}
    given = fields(value, path, known)
    for name in ("id", "application", "deployment"):
        if name not in given:
            raise SettingsError(f"{path}.{name}: required")
    return Model(
        id=text(given["id"], f"{path}.id"),
        application=text(given["application"], f"{path}.application"),
        deployment=text(given["deployment"], f"{path}.deployment"),
        max_model_len=optional(given.get("maxModelLen"), f"{path}.maxModelLen", _count),
        tokenizer=optional(given.get("tokenizer"), f"{path}.tokenizer", text),
        adapters=items(given.get("adapters", []), f"{path}.adapters", _adapter),
        engine=cast(EngineKind, choice(given.get("engine", "vllm"), f"{path}.engine", ("vllm", "transformers"))),
    )


def _adapter(value: object, path: str) -> Adapter:
    given = fields(value, path, {"id", "path"})
    return Adapter(text(given.get("id"), f"{path}.id"), text(given.get("path"), f"{path}.path"))


def _count(value: object, path: str) -> int:
    return integer(value, path, 1)


def read_gateway(value: object, path: str = "gateway") -> GatewaySettings | None:
    """`user_config.gateway`; None (null) means no gateway, `{}` all defaults. Raises SettingsError."""
    if value is None:
        return None
    given = fields(value, path, {"validation", "cleaning", "keys", "limits", "queue", "cors", "docs"})
    return GatewaySettings(
        validation=read_validation(given.get("validation") or {}, f"{path}.validation"),
        cleaning=optional(given.get("cleaning"), f"{path}.cleaning", _cleaning),
        keys=optional(given.get("keys"), f"{path}.keys", _keys),
        limits=optional(given.get("limits"), f"{path}.limits", _limits),
        queue=optional(given.get("queue"), f"{path}.queue", _queue),
        cors=optional(given.get("cors"), f"{path}.cors", _cors),
        docs=boolean(given.get("docs", False), f"{path}.docs"),
    )


def read_validation(value: object, path: str) -> Validation:
    """`gateway.validation`."""
    readers: dict[str, tuple[str, Any]] = {
        "maxBodyBytes": ("max_body_bytes", _count),
        "maxDepth": ("max_depth", _count),
        "maxMessages": ("max_messages", _count),
        "bodyTimeout": ("body_timeout", seconds),
        "promptCharacters": ("prompt_characters", _bounds),
        "promptTokens": ("prompt_tokens", _bounds),
        "outputTokens": ("output_tokens", _output_tokens),
        "stopSequences": ("stop_sequences", _stop_sequences),
        "parameters": ("parameters", _parameters),
    }
    given = fields(value, path, readers)
    read = {
        attribute: reader(given[name], f"{path}.{name}")
        for name, (attribute, reader) in readers.items()
        if name in given
    }
    return Validation(**read)


def _bounds(value: object, path: str) -> Bounds:
    given = fields(value, path, {"min", "max"})
    bounds = Bounds(
        optional(given.get("min"), f"{path}.min", integer), optional(given.get("max"), f"{path}.max", _count)
    )
    if bounds.min is not None and bounds.max is not None and bounds.min > bounds.max:
        raise SettingsError(f"{path}.max: {bounds.max} is less than {path}.min ({bounds.min})")
    return bounds


def _output_tokens(value: object, path: str) -> OutputTokens:
    given = fields(value, path, {"max", "exceeding"})
    exceeding = choice(given.get("exceeding", "clamp"), f"{path}.exceeding", ("clamp", "reject"))
    return OutputTokens(optional(given.get("max"), f"{path}.max", _count), cast(Literal["clamp", "reject"], exceeding))


def _stop_sequences(value: object, path: str) -> StopSequences:
    given = fields(value, path, {"max", "maxLength"})
    default = StopSequences()
    return StopSequences(
        integer(given.get("max", default.max), f"{path}.max"),
        _count(given.get("maxLength", default.max_length), f"{path}.maxLength"),
    )


def _parameters(value: object, path: str) -> frozenset[str] | None:
    names = optional(value, path, lambda value, path: items(value, path, text))
    return None if names is None else frozenset(names)


def _cleaning(value: object, path: str) -> Cleaning:
    given = fields(value, path, {"remove", "characters", "normalization"})
    remove = items(given.get("remove", list(CLASSES)), f"{path}.remove", lambda item, path: choice(item, path, CLASSES))
    characters = given.get("characters", "")
    if not isinstance(characters, str):
        raise SettingsError(f"{path}.characters: must be a string, not {kind(characters)}")
    normalization = optional(
        given.get("normalization"), f"{path}.normalization", lambda item, path: choice(item, path, ("NFC",))
    )
    return Cleaning(frozenset(remove), characters, cast(Literal["NFC"] | None, normalization))


def _keys(value: object, path: str) -> KeySettings:
    return KeySettings(text(fields(value, path, {"directory"}).get("directory"), f"{path}.directory"))


def _limits(value: object, path: str) -> LimitSettings:
    given = fields(value, path, {"perKey", "perAddress", "redis", "onRedisFailure", "trustedProxies"})
    failure = choice(given.get("onRedisFailure", "allow"), f"{path}.onRedisFailure", ("allow", "deny"))
    return LimitSettings(
        per_key=read_rate_limits(given.get("perKey") or {}, f"{path}.perKey"),
        per_address=read_rate_limits(given.get("perAddress") or {}, f"{path}.perAddress"),
        redis=optional(given.get("redis"), f"{path}.redis", _redis),
        on_redis_failure=cast(Literal["allow", "deny"], failure),
        trusted_proxies=integer(given.get("trustedProxies", 0), f"{path}.trustedProxies"),
    )


def _redis(value: object, path: str) -> RedisSettings:
    given = fields(value, path, {"url", "prefix"})
    redis = RedisSettings(text(given.get("url"), f"{path}.url"))
    return replace(redis, prefix=text(given["prefix"], f"{path}.prefix")) if "prefix" in given else redis


def read_rate_limits(value: object, path: str) -> RateLimits:
    """`{requests: 60/minute, tokens: 100000/hour}`, of the settings or of a single key. Raises SettingsError."""
    given = fields(value, path, {"requests", "tokens"})
    return RateLimits(
        optional(given.get("requests"), f"{path}.requests", _rate),
        optional(given.get("tokens"), f"{path}.tokens", _rate),
    )


def _rate(value: object, path: str) -> Rate:
    match = _RATE.fullmatch(text(value, path))
    if not match:
        raise SettingsError(f"{path}: must have the form 60/minute or 1000/10 minutes (second, minute, hour, day)")
    amount, count, unit = match.groups()
    return Rate(int(amount), int(count or 1) * PERIODS[unit])


def _queue(value: object, path: str) -> QueueSettings:
    return QueueSettings(integer(fields(value, path, {"maxPending"}).get("maxPending"), f"{path}.maxPending"))


def _cors(value: object, path: str) -> CorsSettings:
    return CorsSettings(items(fields(value, path, {"origins"}).get("origins"), f"{path}.origins", text))
