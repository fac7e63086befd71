"""The gateway of a service: its settings as the ingress takes them, and what its pods and the cluster need for it.

Settings stand in the user_config of the ingress, which its replicas take up in place. What stands in pods starts a
second Ray cluster when it changes, so the Secret with the keys is mounted even where no keys are required yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rayllm_ctl.model.kube.quantities import parse_quantity, whole_seconds
from rayllm_ctl.model.plan.deployment import ServeApplication, WorkerGroup
from rayllm_ctl.model.plan.pods import EnvVar, PodTemplate
from rayllm_ctl.model.plan.surroundings import RedisServer
from rayllm_ctl.model.spec.gateway import (
    CODE_PATH,
    KEYS_PATH,
    PROXY_CALLBACK,
    REDIS_IMAGE,
    REDIS_PASSWORD,
    Cleaning,
    Gateway,
    Keys,
    Limits,
    Queue,
    Rates,
    Redis,
    Validation,
    keys_secret,
    redis_name,
)
from rayllm_ctl.model.spec.pod_options import KeyOf
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.json_form import to_json
from rayllm_ctl.planner.deployment.pod_templates import on_python_path

_REDIS_PORT = 6379
_PASSWORD_KEY = "password"  # noqa: S105  the key in the Secret


def gateway_config(service: LLMService, models: Sequence[ServeApplication]) -> dict[str, Any] | None:
    """The settings of the gateway, all of them written out; None if there is no gateway."""
    gateway = service.gateway
    if gateway is None:
        return None
    return {
        "validation": _validation(gateway.validation),
        "cleaning": None if gateway.cleaning is None else _cleaning(gateway.cleaning),
        "keys": None if gateway.keys is None else {"directory": KEYS_PATH},
        "limits": None if gateway.limits is None else _limits(gateway.limits, service),
        "queue": None if gateway.queue is None else {"maxPending": _max_pending(gateway.queue, models)},
        "cors": None if gateway.cors is None else {"origins": list(gateway.cors.origins)},
        "docs": gateway.docs,
    }


def gateway_keys(gateway: Gateway, name: str) -> str:
    """The Secret with the API keys of the service `name`."""
    return (gateway.keys or Keys()).secret or keys_secret(name)


def redis_server(service: LLMService) -> RedisServer | None:
    """The Redis that is rendered next to the service; None if there is none."""
    redis, password = counting_redis(service), _password(service)
    if redis is None or not redis.managed or password is None:
        return None
    return RedisServer(redis_name(service.name), redis.image or REDIS_IMAGE, _REDIS_PORT, password)


def with_gateway(group: WorkerGroup, service: LLMService) -> WorkerGroup:
    """The workers of the ingress, with the Secrets that the gateway reads. No other pod has them."""
    if service.gateway is None:
        return group
    password = _password(service)
    variables = (EnvVar(REDIS_PASSWORD, secret=password),) if password is not None else ()
    pod: PodTemplate = replace(
        group.pod, env=(*variables, *group.pod.env), keys_secret=gateway_keys(service.gateway, service.name)
    )
    return replace(group, pod=pod)


def with_serving_code(service: LLMService) -> LLMService:
    """`service` with the variables by which its pods find the code that is mounted, and Serve's proxies its part."""
    if service.engine.serving_code == "mounted":
        service = on_python_path(service, CODE_PATH)
    if service.gateway is None:
        return service
    return replace(service, engine=replace(service.engine, env={**service.engine.env, **PROXY_CALLBACK}))


def gateway_notes(service: LLMService) -> Iterator[str]:
    """What a reader of the plan should know of the gateway."""
    gateway = service.gateway
    if service.engine.serving_code == "image":
        yield "the image must contain the gateway's code of this version (rayllm-ctl image recipe)"
    if gateway is None:
        return
    if gateway.limits is not None and gateway.limits.redis is None:
        yield "without spec.gateway.limits.redis each replica of the ingress counts limits for itself"


def counting_redis(service: LLMService) -> Redis | None:
    """The Redis in which limits are counted, which takes packages to reach."""
    return service.gateway.limits.redis if service.gateway and service.gateway.limits else None


def _validation(checks: Validation) -> Mapping[str, Any]:
    written: dict[str, Any] = to_json(checks)
    return {
        **written,
        "maxBodyBytes": int(parse_quantity(checks.max_body_bytes)),
        "bodyTimeout": whole_seconds(checks.body_timeout),
        "parameters": None if checks.parameters is None else sorted(checks.parameters),
    }


def _cleaning(cleaning: Cleaning) -> Mapping[str, Any]:
    written: dict[str, Any] = to_json(cleaning)
    return {**written, "remove": sorted(set(cleaning.remove))}


def _limits(limits: Limits, service: LLMService) -> Mapping[str, Any]:
    redis = limits.redis
    url = None if redis is None else redis.url or f"redis://{redis_name(service.name)}:{_REDIS_PORT}/0"
    # Services that share a Redis count for themselves.
    prefix = "/".join(part for part in (service.namespace, service.name) if part)
    return {
        "perKey": _rates(limits.per_key),
        "perAddress": _rates(limits.per_address),
        "redis": None if url is None else {"url": url, "prefix": prefix},
        "onRedisFailure": limits.on_redis_failure,
        "trustedProxies": limits.trusted_proxies,
    }


def _rates(rates: Rates) -> Mapping[str, Any]:
    return {"requests": rates.requests, "tokens": rates.tokens}


def _max_pending(queue: Queue, models: Sequence[ServeApplication]) -> int:
    """As many as run at once by default: who comes last then waits about as long as an answer takes."""
    return queue.max_pending or sum(one.max_ongoing_requests * one.autoscaling.max_replicas for one in models)


def _password(service: LLMService) -> KeyOf | None:
    """The key of a Secret with the password of the Redis."""
    redis = counting_redis(service)
    if redis is None:
        return None
    if redis.password_secret is not None:
        return KeyOf(redis.password_secret.name, redis.password_secret.key)
    return KeyOf(redis_name(service.name), _PASSWORD_KEY) if redis.managed else None
