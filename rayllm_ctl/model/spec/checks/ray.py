"""Checks of spec.ray and spec.upgrade."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.spec.checks.pod_fields import is_data_key, is_object_name, quantity
from rayllm_ctl.model.spec.ray_options import INCREMENTAL, RayOptions, Upgrade, logging_environment
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.patterns import REDIS_ADDRESS
from rayllm_ctl.model.text.problems import Path, Problem, quoted


def ray_problems(service: LLMService) -> Iterator[Problem]:
    """All that is wrong with them, in the order of the spec file."""
    found = list(_ray(service.ray))
    yield from found
    if not found:
        for name in logging_environment(service.ray.logging).keys() & service.engine.env.keys():
            yield Problem(("spec", "engine", "env", name), "is set by spec.ray.logging as well")
        for role, pod in (("head", service.pods.head), ("worker", service.pods.worker)):
            for index, variable in enumerate(pod.env):
                if variable.name in logging_environment(service.ray.logging):
                    yield Problem(
                        ("spec", "pods", role, "env", index, "name"),
                        f"{variable.name} is also set by spec.ray.logging",
                    )
    yield from _upgrade(service.upgrade)
    if service.upgrade.strategy == "None" and service.rollout in ("new-cluster", "shrink"):
        yield Problem(
            ("spec", "rollout"),
            f"{service.rollout} cannot be combined with spec.upgrade.strategy: None, with which KubeRay starts no "
            "second RayCluster",
        )
    if service.upgrade.strategy == INCREMENTAL and service.serve.proxy_location == "HeadOnly":
        yield Problem(
            ("spec", "serve", "proxyLocation"),
            f"HeadOnly cannot be combined with {INCREMENTAL}: KubeRay would send requests to workers as well",
        )


def _ray(ray: RayOptions) -> Iterator[Problem]:
    at: Path = ("spec", "ray")
    authentication, tolerance, logging = ray.authentication, ray.fault_tolerance, ray.logging
    if authentication.secret_name is not None:
        here = (*at, "authentication", "secretName")
        if authentication.mode == "none":
            yield Problem(here, "has no effect without spec.ray.authentication.mode: token")
        elif not is_object_name(authentication.secret_name):
            yield Problem(here, f"{quoted(authentication.secret_name)} is not a valid name of a Secret")
    if tolerance is not None:
        here = (*at, "faultTolerance")
        if not REDIS_ADDRESS.fullmatch(tolerance.redis_address):
            # Not repeated: the address may contain the password.
            yield Problem(
                (*here, "redisAddress"),
                "is not a valid address, such as redis:6379 or rediss://redis.example.com:6380 (without credentials)",
                "put the password into a Secret and name it in spec.ray.faultTolerance.passwordSecret",
            )
        secret = tolerance.password_secret
        if secret is not None and not (is_object_name(secret.name) and is_data_key(secret.key)):
            yield Problem(
                (*here, "passwordSecret"), "expected the name of a Secret and one of its keys, not the password itself"
            )
    yield from quantity((*at, "logging", "rotateBytes"), logging.rotate_bytes)
    if logging.backup_count is not None and not 1 <= logging.backup_count < 2**31:
        yield Problem((*at, "logging", "backupCount"), f"must be between 1 and {2**31 - 1}, not {logging.backup_count}")
    yield from whole_seconds((*at, "idleTimeout"), ray.idle_timeout, least=1)


def _upgrade(upgrade: Upgrade) -> Iterator[Problem]:
    at: Path = ("spec", "upgrade")
    steps = {
        "maxSurgePercent": upgrade.max_surge_percent,
        "stepSizePercent": upgrade.step_size_percent,
        "interval": upgrade.interval,
        "gatewayClassName": upgrade.gateway_class_name,
    }
    for field, value in steps.items():
        if upgrade.strategy != INCREMENTAL and value is not None:
            yield Problem((*at, field), f"has no effect with strategy {upgrade.strategy}, only with {INCREMENTAL}")
        elif upgrade.strategy == INCREMENTAL and value is None and field != "maxSurgePercent":
            yield Problem((*at, field), f"is required with strategy {INCREMENTAL}")
        elif isinstance(value, int) and field.endswith("Percent") and not 1 <= value <= 100:
            yield Problem((*at, field), f"must be between 1 and 100, not {value}")
    if upgrade.strategy == INCREMENTAL:
        yield from whole_seconds((*at, "interval"), upgrade.interval, least=1)
        if upgrade.gateway_class_name is not None and not is_object_name(upgrade.gateway_class_name):
            yield Problem(
                (*at, "gatewayClassName"), f"{quoted(upgrade.gateway_class_name)} is not a valid name of a GatewayClass"
            )
    yield from whole_seconds((*at, "deletionDelay"), upgrade.deletion_delay, least=0)


def whole_seconds(at: Path, value: float | None, *, least: int) -> Iterator[Problem]:
    """The problem of a duration that KubeRay counts these in whole seconds."""
    if value is not None and not (least <= value <= 2**31 - 1 and value == int(value)):
        yield Problem(at, f"must be a whole number of seconds of at least {least}, not {value:g} s")
