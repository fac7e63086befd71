"""What Ray accepts as the options of a deployment, stated as rules. Sources: see schema.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.model.text.problems import Path
from rayllm_ctl.serveconfig.placement import amount, bundles_hold_the_actor, resources
from rayllm_ctl.serveconfig.runtimeenv import runtime_env
from rayllm_ctl.serveconfig.shapes import (
    Report,
    Rule,
    anything,
    as_number,
    boolean,
    entries,
    integer,
    items,
    mapping,
    nullable,
    number,
    one_of,
    section,
    shown,
    text,
)

LARGEST = 2**31 - 1
"""Replicas of a deployment, and requests of a replica. Ray keeps both in 32 bits (ray.serve.DeploymentConfig in
src/ray/protobuf/serve.proto), and KubeRay the workers that replicas run on (minReplicas and maxReplicas)."""

LEVELS = ("CRITICAL", "FATAL", "ERROR", "WARN", "WARNING", "INFO", "DEBUG", "NOTSET")
_LEVEL_NUMBERS = (0, 10, 20, 30, 40, 50)
_RECORD_FIELDS = (
    "args", "asctime", "created", "exc_info", "exc_text", "filename", "funcName", "levelname", "levelno", "lineno",
    "message", "module", "msecs", "msg", "name", "pathname", "process", "processName", "relativeCreated", "stack_info",
    "thread", "threadName", "taskName",
)  # fmt: skip
"""LOGRECORD_STANDARD_ATTRS of ray/_common/logging_constants.py."""


def _log_level(value: Any, path: Path, report: Report) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        if value not in _LEVEL_NUMBERS:
            report.reject(path, f"{value} is not a log level (supported values: {', '.join(map(str, _LEVEL_NUMBERS))})")
    else:
        one_of(*LEVELS)(value, path, report)


def _replicas(value: Any, path: Path, report: Report) -> None:
    if value is None or value == "auto":
        return
    if not isinstance(value, int) or value < 1:
        report.reject(path, f'must be an integer of at least 1, or "auto", not {shown(value)}')
    elif value > LARGEST:
        report.reject(path, f"must be at most {LARGEST}, not {shown(value)}")


def _queue(value: Any, path: Path, report: Report) -> None:
    integer(strict=True)(value, path, report)
    if isinstance(value, int) and value < 1 and value != -1:
        report.reject(path, f"must be -1 (no limit) or at least 1, not {value}")


LOGGING = section(
    {
        "encoding": one_of("TEXT", "JSON"),
        "log_level": _log_level,
        "logs_dir": nullable(text),
        "enable_access_log": boolean,
        "additional_log_standard_attrs": items(one_of(*_RECORD_FIELDS)),
    },
    closed=True,
)


def replica_bounds_fit(value: Any, path: Path, report: Report) -> None:
    """The rules between the bounds of autoscaling."""
    # Unset bounds are 1, or 1 to 100 of num_replicas: auto, which ray/serve/_private/config.py merges in before.
    low, high, initial = (as_number(value.get(f"{name}_replicas")) for name in ("min", "max", "initial"))
    if low is not None and high is not None and low > high:
        report.reject((*path, "min_replicas"), f"{low:g} is greater than max_replicas ({high:g})")
    elif initial is not None and not (low or 0) <= initial <= (initial if high is None else high):
        report.reject((*path, "initial_replicas"), f"{initial:g} is not between min_replicas and max_replicas")


def _aggregation(value: Any, path: Path, report: Report) -> None:
    one_of("mean", "max", "min")(str(value).lower(), path, report)


AUTOSCALING_FIELDS: Mapping[str, Rule] = {
    "min_replicas": integer(at_least=0, at_most=LARGEST),
    "initial_replicas": nullable(integer(at_least=0, at_most=LARGEST)),
    "max_replicas": integer(at_least=1, at_most=LARGEST),
    "target_ongoing_requests": nullable(number(above=0)),
    "metrics_interval_s": number(above=0),
    "look_back_period_s": number(above=0),
    "smoothing_factor": number(above=0),
    "upscale_smoothing_factor": nullable(number(above=0)),
    "downscale_smoothing_factor": nullable(number(above=0)),
    "upscaling_factor": nullable(number(above=0)),
    "downscaling_factor": nullable(number(above=0)),
    "downscale_delay_s": number(at_least=0),
    "downscale_to_zero_delay_s": nullable(number(at_least=0)),
    "upscale_delay_s": number(at_least=0),
    "aggregation_function": _aggregation,
    "policy": section({"policy_function": text, "policy_kwargs": mapping}),
}
_AUTOSCALING = section(AUTOSCALING_FIELDS, then=replica_bounds_fit)

ACTOR_FIELDS: Mapping[str, Rule] = {
    "runtime_env": runtime_env,
    "num_cpus": nullable(amount),
    "num_gpus": nullable(amount),
    "memory": nullable(amount),
    "resources": resources,
    "accelerator_type": nullable(text),
    "label_selector": nullable(entries(text)),
    "fallback_strategy": nullable(items(mapping)),
}
_ACTOR = section(ACTOR_FIELDS)

_GANG = section(
    {
        "gang_size": integer(at_least=1),
        "gang_placement_strategy": one_of("PACK", "SPREAD"),
        "runtime_failure_policy": one_of("RESTART_GANG"),
    },
    required=("gang_size",),
)

_BACKPRESSURE = section({"status_code": anything, "retry_after_s": nullable(number(at_least=0))}, closed=True)

_ROUTER = section(
    {
        "request_router_class": text,
        "request_router_kwargs": mapping,
        "request_routing_stats_period_s": number(above=0),
        "request_routing_stats_timeout_s": number(above=0),
        "initial_backoff_s": number(above=0),
        "backoff_multiplier": number(above=0),
        "max_backoff_s": number(above=0),
    }
)

_SHARED_ACTOR = section(
    {
        "name": text,
        "actor_class": text,
        "init_args": items(anything),
        "init_kwargs": mapping,
        "actor_options": mapping,
    },
    required=("name", "actor_class"),
)


def deployment_as_a_whole(value: Any, path: Path, report: Report) -> None:
    """The rules between the options of a deployment."""
    replicas, scaling, gang = (
        value.get(key) for key in ("num_replicas", "autoscaling_config", "gang_scheduling_config")
    )
    if isinstance(replicas, int) and scaling is not None:
        report.reject((*path, "num_replicas"), 'must be "auto" or left out: autoscaling_config decides')
    for key in ("max_replicas_per_node", "placement_group_strategy"):
        if gang is not None and key in value:
            report.reject((*path, key), "cannot be combined with gang_scheduling_config")
    size = (as_number(gang["gang_size"]) if gang is not None else None) or 1
    if isinstance(replicas, int) and replicas % size:
        report.reject((*path, "num_replicas"), f"{replicas} is not a multiple of gang_size ({size:g})")
    code = (value.get("backpressure_config") or {}).get("status_code", 503)
    if code not in (503, 429):
        report.reject((*path, "backpressure_config", "status_code"), f"must be 503 or 429, not {shown(code)}")
    bundles_hold_the_actor(value, path, report)


DEPLOYMENT_FIELDS: Mapping[str, Rule] = {
    "name": text,
    "num_replicas": _replicas,
    "max_ongoing_requests": integer(at_least=1, at_most=LARGEST),
    "max_queued_requests": _queue,
    "backpressure_config": _BACKPRESSURE,
    "user_config": nullable(mapping),
    "autoscaling_config": nullable(_AUTOSCALING),
    "graceful_shutdown_wait_loop_s": number(at_least=0),
    "graceful_shutdown_timeout_s": number(at_least=0),
    "health_check_period_s": number(above=0),
    "health_check_timeout_s": number(above=0),
    "ray_actor_options": _ACTOR,
    "placement_group_bundles": items(entries(amount)),
    "placement_group_strategy": one_of("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"),
    "placement_group_bundle_label_selector": items(entries(text)),
    "max_replicas_per_node": integer(at_least=1, at_most=100),
    "logging_config": LOGGING,
    "request_router_config": _ROUTER,
    "gang_scheduling_config": nullable(_GANG),
    "deployment_actors": nullable(items(_SHARED_ACTOR)),
    "rolling_update_percentage": number(above=0, at_most=1),
    "max_surge_percent": integer(at_least=0, at_most=100),
}
DEPLOYMENT = section(DEPLOYMENT_FIELDS, required=("name",), then=deployment_as_a_whole)
