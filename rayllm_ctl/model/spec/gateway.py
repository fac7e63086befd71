"""Options of the gateway: checks, keys, limits and a bounded queue in front of the models."""

from __future__ import annotations

from typing import Annotated, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.spec.form import QUANTITY, SECONDS, SecretKey

Exceeding = Literal["clamp", "reject"]
Removable = Literal["nul", "control", "bidi", "surrogates"]
Normalization = Literal["NFC"]
OnRedisFailure = Literal["allow", "deny"]

REDIS_IMAGE = "docker.io/library/redis:8.2-alpine"

REDIS_PASSWORD = "RAYLLM_REDIS_PASSWORD"  # noqa: S105  the name of a variable
"""Environment variable in which the gateway finds the password of the Redis."""

SERVING_PATH = "/opt/rayllm/serving"
"""Where the code that runs in the pods is mounted, or is in the image."""

CODE_ARCHIVE = "rayllm.zip"
CODE_PATH = f"{SERVING_PATH}/{CODE_ARCHIVE}"
"""The file with the mounted code: a place of PYTHONPATH."""

INGRESS_PATH = "/opt/rayllm/ingress"
"""Where the code of the ingress is mounted, as DIGEST.zip (rayllm_ctl.serving.shipped)."""

INGRESS_CODE = "RAYLLM_INGRESS_CODE"
"""The variable with that digest, in processes of the ingress alone."""

PROXY_CALLBACK = {"RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "rayllm_ctl.serving.proxy:middlewares"}
"""What Serve's proxies in all pods run of the gateway: see rayllm_ctl/serving/proxy.py."""

KEYS_VOLUME = "api-keys"
"""Volume of the pods with the gateway: the Secret with the API keys."""

KEYS_PATH = "/etc/rayllm/keys"
"""Where the Secret with the keys is mounted."""


@dataclass(frozen=True)
class Bounds:
    """The least and the most of something; null: no limit."""

    min: Annotated[int | None, "The least that is accepted."] = None
    max: Annotated[int | None, "The most that is accepted."] = None


@dataclass(frozen=True)
class OutputTokens:
    """How many tokens a request may ask for."""

    max: Annotated[int | None, "The most output tokens of a request; by default what the model's context leaves."] = (
        None
    )
    exceeding: Annotated[Exceeding, "Handling of a request for more: clamp it to the maximum, or reject it."] = "clamp"


@dataclass(frozen=True)
class StopSequences:
    """Stop sequences of a request."""

    max: Annotated[int, "The most stop sequences of a request."] = 16
    max_length: Annotated[int, "Length of a stop sequence in characters."] = 256


@dataclass(frozen=True)
class Validation:
    """What a request must satisfy.

    body_timeout is seconds.
    """

    max_body_bytes: Annotated[str, QUANTITY, "Largest body of a request."] = "10Mi"
    max_depth: Annotated[int, "Deepest nesting of its JSON."] = 32
    max_messages: Annotated[int, "The most messages of a chat."] = 1024
    body_timeout: Annotated[float, SECONDS, "How long a client may take to send the body."] = 30.0
    prompt_characters: Annotated[Bounds, "Length of the prompt in characters."] = Bounds()
    prompt_tokens: Annotated[
        Bounds, "Length of the prompt in tokens, counted with the model's own tokenizer and chat template."
    ] = Bounds()
    output_tokens: OutputTokens = OutputTokens()
    stop_sequences: StopSequences = StopSequences()
    parameters: Annotated[
        tuple[str, ...] | None, "Sampling options that requests may set (temperature, top_p, ...); by default all."
    ] = None


@dataclass(frozen=True)
class Cleaning:
    """What is removed from prompts. The header x-prompt-cleaned of the answer says what was."""

    remove: Annotated[tuple[Removable, ...], "Kinds of characters: nul, control, bidi, surrogates."] = (
        "nul", "control", "bidi", "surrogates",
    )  # fmt: skip
    characters: Annotated[str, "Further characters to remove."] = ""
    normalization: Annotated[Normalization | None, "Unicode normalization form; by default none."] = None


@dataclass(frozen=True)
class Keys:
    """API keys: every request must send one of those in the Secret, as `Authorization: Bearer KEY`."""

    secret: Annotated[str | None, "Secret with the keys (`rayllm-ctl keys`); by default NAME-keys."] = None


@dataclass(frozen=True)
class Rates:
    """How much is accepted in any period: 60/minute, 100000/hour."""

    requests: Annotated[str | None, "Requests: NUMBER/second, /minute, /hour or /day."] = None
    tokens: Annotated[str | None, "Tokens of prompts and answers: NUMBER/minute, /hour or /day."] = None


@dataclass(frozen=True)
class Redis:
    """Where limits are counted, so that they hold over all replicas of the gateway: a Redis, given or managed."""

    url: Annotated[str | None, "A Redis that exists: redis://redis:6379/0, rediss://... No credentials."] = None
    managed: Annotated[bool, "Render a small Redis next to the service, instead of `url`."] = False
    image: Annotated[str | None, f"Image of the managed Redis; {REDIS_IMAGE} by default."] = None
    password_secret: Annotated[
        SecretKey | None,
        "Secret with the password; of a managed Redis by default NAME-redis, which deploy creates.",
    ] = None


@dataclass(frozen=True)
class Limits:
    """Rate limits, over a moving window. They count accepted requests."""

    per_key: Annotated[Rates, "Of each API key that has no limits of its own."] = Rates()
    per_address: Annotated[Rates, "Of each client address."] = Rates()
    redis: Annotated[Redis | None, "Count in a Redis; by default each replica of the gateway counts for itself."] = None
    on_redis_failure: Annotated[OnRedisFailure, "What happens to requests while the Redis is unreachable."] = "allow"
    trusted_proxies: Annotated[int, "Proxies in front whose X-Forwarded-For counts for the client's address."] = 0


@dataclass(frozen=True)
class Queue:
    """How many requests may wait for a replica. What exceeds it is answered with 503 and Retry-After."""

    max_pending: Annotated[
        int | None, "Requests that may wait; by default as many as all replicas together run at once."
    ] = None


@dataclass(frozen=True)
class CORS:
    """Which web pages may use the service from a browser."""

    origins: Annotated[tuple[str, ...], "Origins: https://chat.example.com, or * for all."]


@dataclass(frozen=True)
class Gateway:
    """A gateway in front of the models, in the ingress of Ray Serve. `gateway: {}` validates requests only."""

    validation: Validation = Validation()
    cleaning: Annotated[Cleaning | None, "Remove characters from prompts; by default nothing is removed."] = None
    keys: Annotated[Keys | None, "Require API keys; by default everyone is admitted."] = None
    limits: Annotated[Limits | None, "Limit requests and tokens; by default there are no limits."] = None
    queue: Annotated[Queue | None, "Bound the queue; by default it is not bounded."] = None
    cors: Annotated[CORS | None, "Admit web pages of other origins; by default none."] = None
    docs: Annotated[bool, "Serve /docs and /openapi.json."] = False


def keys_secret(name: str) -> str:
    """The default Secret with the API keys of the service `name`."""
    return f"{name}-keys"


def redis_name(name: str) -> str:
    """The name of the managed Redis of the service `name`: its Deployment, Service and default Secret."""
    return f"{name}-redis"
