"""Checks of spec.gateway."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.kube.names import did_you_mean
from rayllm_ctl.model.kube.quantities import parse_quantity
from rayllm_ctl.model.spec.checks.pod_fields import is_data_key, is_object_name
from rayllm_ctl.model.spec.gateway import (
    INGRESS_CODE,
    INGRESS_PATH,
    KEYS_PATH,
    KEYS_VOLUME,
    PROXY_CALLBACK,
    REDIS_PASSWORD,
    SERVING_PATH,
    Bounds,
    Cleaning,
    Gateway,
    Limits,
    Rates,
    Redis,
    Validation,
)
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.spec.several_models import has_ingress
from rayllm_ctl.model.text.patterns import IMAGE, REDIS_URL, UNSENDABLE, Pattern
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_AT: Path = ("spec", "gateway")
_LARGEST_BODY = 2**30

RATE = Pattern(r"([1-9]\d{0,11})/(?:([1-9]\d{0,3}) )?(second|minute|hour|day)s?")
"""As the gateway reads it: 60/minute, 100000/10 minutes."""

ORIGIN = Pattern(r"https?://(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-f:]+\])(?::\d{1,5})?")

PARAMETERS = frozenset(
    {
        "temperature", "top_p", "top_k", "min_p", "n", "best_of", "seed", "presence_penalty", "frequency_penalty",
        "repetition_penalty", "length_penalty", "logit_bias", "logprobs", "top_logprobs", "prompt_logprobs", "stop",
        "stop_token_ids", "include_stop_str_in_output", "ignore_eos", "min_tokens", "max_tokens",
        "max_completion_tokens", "use_beam_search", "skip_special_tokens", "spaces_between_special_tokens",
        "truncate_prompt_tokens", "allowed_token_ids", "bad_words", "echo", "response_format", "structured_outputs",
        "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "do_sample", "num_beams", "penalty_alpha",
        "early_stopping", "no_repeat_ngram_size", "typical_p", "epsilon_cutoff", "eta_cutoff",
    }
)  # fmt: skip
"""Of OpenAI's API, of vLLM 0.29 (SamplingParams, ChatCompletionRequest) and of Transformers' GenerationConfig."""


def gateway_problems(service: LLMService) -> Iterator[Problem]:
    """All that is wrong with it, in the order of the spec file."""
    gateway = service.gateway
    if gateway is None:
        if service.engine.serving_code != "mounted" and not has_ingress(service):
            yield Problem(("spec", "engine", "servingCode"), "has no effect without spec.gateway", "--gateway")
        return
    yield from _validation(gateway.validation, service.engine.max_model_len)
    if gateway.cleaning == Cleaning(remove=()):
        yield Problem((*_AT, "cleaning"), "has no effect: it removes nothing and normalizes nothing")
    if gateway.cleaning is not None and UNSENDABLE.search(gateway.cleaning.characters):
        yield Problem(
            (*_AT, "cleaning", "characters"),
            "contains control characters or surrogates",
            "they are removed by remove: [nul, control, surrogates]",
        )
    if gateway.keys is not None and gateway.keys.secret is not None and not is_object_name(gateway.keys.secret):
        # Not repeated: somebody may have written a key.
        yield Problem(
            (*_AT, "keys", "secret"),
            "expected the name of a Secret: lower-case letters, digits, '-' and '.'",
            "rayllm-ctl keys create",
        )
    if gateway.limits is not None:
        yield from _limits(gateway.limits, gateway)
    if gateway.queue is not None:
        yield from _at_least((*_AT, "queue", "maxPending"), gateway.queue.max_pending, 1)
    if gateway.cors is not None:
        yield from _origins(gateway.cors.origins)
    yield from _volumes(service)
    yield from _environment(service)


def _validation(checks: Validation, context: int | None) -> Iterator[Problem]:
    at = (*_AT, "validation")
    yield from _size((*at, "maxBodyBytes"), checks.max_body_bytes)
    yield from _at_least((*at, "maxDepth"), checks.max_depth, 1)
    yield from _at_least((*at, "maxMessages"), checks.max_messages, 1)
    if not 0 < checks.body_timeout <= 3600:
        yield Problem(
            (*at, "bodyTimeout"), f"must be greater than 0 and at most 3600 seconds, not {checks.body_timeout:g}"
        )
    yield from _bounds((*at, "promptCharacters"), checks.prompt_characters)
    yield from _bounds((*at, "promptTokens"), checks.prompt_tokens)
    least = checks.prompt_tokens.min
    if context is not None and least is not None and least >= context:
        yield Problem(
            (*at, "promptTokens", "min"),
            f"no prompt of {least} tokens fits spec.engine.maxModelLen ({context})",
        )
    yield from _at_least((*at, "outputTokens", "max"), checks.output_tokens.max, 1)
    if checks.output_tokens.exceeding == "reject" and checks.output_tokens.max is None:
        yield Problem((*at, "outputTokens", "exceeding"), "reject has no effect without max")
    yield from _at_least((*at, "stopSequences", "max"), checks.stop_sequences.max, 0)
    yield from _at_least((*at, "stopSequences", "maxLength"), checks.stop_sequences.max_length, 1)
    seen: set[str] = set()
    for index, name in enumerate(checks.parameters or ()):
        here = (*at, "parameters", index)
        if name not in PARAMETERS:
            yield Problem(here, f"{quoted(name)} is not a sampling option", did_you_mean(name, PARAMETERS))
        elif name in seen:
            yield Problem(here, f"{quoted(name)} is already listed")
        seen.add(name)


def _size(at: Path, text: str) -> Iterator[Problem]:
    try:
        size = parse_quantity(text)
    except ValueError as error:
        yield Problem(at, str(error))
        return
    if not 1024 <= size <= _LARGEST_BODY or size != int(size):
        yield Problem(at, f"must be a whole number of bytes from 1Ki to 1Gi, not {text}")


def _bounds(at: Path, bounds: Bounds) -> Iterator[Problem]:
    yield from _at_least((*at, "min"), bounds.min, 0)
    yield from _at_least((*at, "max"), bounds.max, 1)
    if bounds.min is not None and bounds.max is not None and bounds.min > bounds.max >= 1:
        yield Problem((*at, "min"), f"{bounds.min} is greater than max ({bounds.max})")


def _limits(limits: Limits, gateway: Gateway) -> Iterator[Problem]:
    at = (*_AT, "limits")
    yield from _rates((*at, "perKey"), limits.per_key)
    yield from _rates((*at, "perAddress"), limits.per_address)
    if gateway.keys is None and limits.per_key != Rates():
        yield Problem((*at, "perKey"), "requires spec.gateway.keys", "keys: {}")
    if gateway.keys is None and limits.per_key == limits.per_address == Rates():
        yield Problem(at, "has no effect: nothing is limited", "perAddress: {requests: 60/minute}")
    if limits.redis is not None:
        yield from _redis((*at, "redis"), limits.redis)
    elif limits.on_redis_failure != "allow":
        yield Problem((*at, "onRedisFailure"), "has no effect without spec.gateway.limits.redis")
    if not 0 <= limits.trusted_proxies <= 16:
        yield Problem((*at, "trustedProxies"), f"must be between 0 and 16, not {limits.trusted_proxies}")


def _rates(at: Path, rates: Rates) -> Iterator[Problem]:
    for name, rate in (("requests", rates.requests), ("tokens", rates.tokens)):
        if rate is not None and (problem := rate_problem(rate)):
            yield Problem((*at, name), problem)


def rate_problem(rate: str) -> str | None:
    """Why `rate` is not a rate; None if it is."""
    return None if RATE.fullmatch(rate) else f"{quoted(rate)} is not a rate, such as 60/minute or 100000/10 minutes"


def _redis(at: Path, redis: Redis) -> Iterator[Problem]:
    if redis.managed == (redis.url is not None):
        yield Problem(at, "expected either url or managed: true")
    if redis.url is not None and not REDIS_URL.fullmatch(redis.url):
        # Not repeated: the URL may contain the password.
        yield Problem(
            (*at, "url"),
            "is not a valid URL, such as redis://redis:6379/0 or rediss://redis.example.com:6380 (without credentials)",
            "put the password into a Secret and name it in spec.gateway.limits.redis.passwordSecret",
        )
    if redis.image is not None and not redis.managed:
        yield Problem((*at, "image"), "has no effect without managed: true")
    elif redis.image is not None and not IMAGE.fullmatch(redis.image):
        yield Problem((*at, "image"), "not a valid image reference, such as redis:8.2-alpine")
    secret = redis.password_secret
    if secret is not None and not (is_object_name(secret.name) and is_data_key(secret.key)):
        yield Problem(
            (*at, "passwordSecret"), "expected the name of a Secret and one of its keys, not the password itself"
        )


def _origins(origins: tuple[str, ...]) -> Iterator[Problem]:
    at = (*_AT, "cors", "origins")
    if not origins:
        yield Problem(at, "must have at least one origin", 'origins: ["https://chat.example.com"]')
    for index, origin in enumerate(origins):
        if origin != "*" and not ORIGIN.fullmatch(origin):
            yield Problem(
                (*at, index), f"{quoted(origin)} is not an origin, such as https://chat.example.com or * (no path)"
            )


def _volumes(service: LLMService) -> Iterator[Problem]:
    """Volumes in the place of those that the gateway needs itself."""
    for index, volume in enumerate(service.storage.volumes):
        at = ("spec", "storage", "volumes", index)
        if volume.name in (KEYS_VOLUME, "serving", "ingress-code"):
            yield Problem((*at, "name"), f"{quoted(volume.name)} is the name of a volume of spec.gateway")
        if volume.mount_path.rstrip("/") in (KEYS_PATH, SERVING_PATH, INGRESS_PATH):
            yield Problem((*at, "mountPath"), f"spec.gateway mounts a volume at {volume.mount_path}")


def _environment(service: LLMService) -> Iterator[Problem]:
    """Variables that the gateway needs itself."""
    for name in sorted({*PROXY_CALLBACK, INGRESS_CODE} & service.engine.env.keys()):
        yield Problem(("spec", "engine", "env", name), f"{name} is set by spec.gateway")
    for role, pod in (("head", service.pods.head), ("worker", service.pods.worker)):
        for index, variable in enumerate(pod.env):
            if variable.name in ("PYTHONPATH", REDIS_PASSWORD, INGRESS_CODE, *PROXY_CALLBACK):
                yield Problem(
                    ("spec", "pods", role, "env", index, "name"),
                    f"{variable.name} is set by spec.gateway",
                    "spec.engine.env.PYTHONPATH is kept" if variable.name == "PYTHONPATH" else "",
                )


def _at_least(at: Path, number: int | None, least: int) -> Iterator[Problem]:
    if number is not None and not least <= number < 2**31:
        yield Problem(at, f"must be at least {least} and less than 2147483648, not {number}")
