"""The settings of the gateway and the models behind it, as read from `user_config` of the ingress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

EngineKind = Literal["vllm", "transformers"]

CLASSES = ("nul", "control", "bidi", "surrogates")
"""Classes of characters that `cleaning.remove` may name."""


@dataclass(frozen=True, slots=True)
class Rate:
    """So many per period, in a moving window: `60/minute`, `100000/10 minutes`."""

    amount: int
    seconds: int


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Limits of one key or address; None means no limit."""

    requests: Rate | None = None
    tokens: Rate | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the most; None means no bound."""

    min: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True)
class OutputTokens:
    """The most tokens of an answer, and what happens to a request for more."""

    max: int | None = None
    exceeding: Literal["clamp", "reject"] = "clamp"


@dataclass(frozen=True, slots=True)
class StopSequences:
    """The most stop sequences, and the characters of the longest."""

    max: int = 16
    max_length: int = 256


@dataclass(frozen=True, slots=True)
class Validation:
    """What a request may contain."""

    max_body_bytes: int = 10 * 2**20
    max_depth: int = 32
    max_messages: int = 1024
    body_timeout: float = 30.0
    """Seconds in which the whole body must have arrived."""
    prompt_characters: Bounds = Bounds()
    prompt_tokens: Bounds = Bounds()
    output_tokens: OutputTokens = OutputTokens()
    stop_sequences: StopSequences = StopSequences()
    parameters: frozenset[str] | None = None
    """Sampling options that requests may use; None for all."""


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What is removed from prompts."""

    remove: frozenset[str] = frozenset(CLASSES)
    characters: str = ""
    normalization: Literal["NFC"] | None = None


@dataclass(frozen=True, slots=True)
class KeySettings:
    """Where the Secret with the keys is mounted."""

    directory: str


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """A Redis that all ingress replicas count in. Its password is the environment variable RAYLLM_REDIS_PASSWORD."""

    url: str
    prefix: str = "rayllm"
    """Of all keys that are written; services with the same one share their limits."""


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Rate limits."""

    per_key: RateLimits = RateLimits()
    per_address: RateLimits = RateLimits()
    redis: RedisSettings | None = None
    """Without it every ingress replica counts for itself."""
    on_redis_failure: Literal["allow", "deny"] = "allow"
    trusted_proxies: int = 0
    """Proxies in front of the service that append to X-Forwarded-For."""


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The most requests that may wait for a replica."""

    max_pending: int


@dataclass(frozen=True, slots=True)
class CorsSettings:
    """Origins of web pages that may call the API; `*` for all."""

    origins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """All settings of the gateway; None disables a step."""

    validation: Validation = Validation()
    cleaning: Cleaning | None = None
    keys: KeySettings | None = None
    limits: LimitSettings | None = None
    queue: QueueSettings | None = None
    cors: CorsSettings | None = None
    docs: bool = False


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter of a model, requested by its id."""

    id: str
    path: str


@dataclass(frozen=True, slots=True)
class Model:
    """A model behind the ingress."""

    id: str
    application: str
    deployment: str
    max_model_len: int | None = None
    tokenizer: str | None = None
    """A directory or a repository of the hub; None if the gateway cannot count the tokens of prompts."""
    adapters: tuple[Adapter, ...] = ()
    engine: EngineKind = "vllm"


def by_name(models: Iterable[Model]) -> dict[str, Model]:
    """Models by their ids and those of their adapters: each model, followed by its adapters."""
    return {name: model for model in models for name in (model.id, *(adapter.id for adapter in model.adapters))}
