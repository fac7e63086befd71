"""Rules that the sections of a configuration of Ray Serve LLM have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rayllm_ctl.model.spec.checks.engine_args import type_problem
from rayllm_ctl.model.text.problems import Path
from rayllm_ctl.serveconfig.deployment import replica_bounds_fit
from rayllm_ctl.serveconfig.shapes import Report, Rule, as_number, shown

REMOTE: Final = ("s3://", "gs://", "abfss://", "azure://", "pyarrow-")
"""How addresses of buckets begin."""


def hardware(config: Mapping[str, Any]) -> str:
    """What the engine of a valid configuration runs on: cpu, gpu or tpu."""
    kind = (config.get("accelerator_config") or {}).get("kind")
    if kind is not None:
        return str(kind)
    placement = config.get("placement_group_config")
    if placement:
        bundles = [placement.get("bundle_per_worker") or {}, *(placement.get("bundles") or ())]
        return next((name.lower() for name in ("TPU", "GPU") if any(_amount(one, name) for one in bundles)), "cpu")
    return "tpu" if str(config.get("accelerator_type") or "").startswith("TPU-") else "gpu"


def _amount(bundle: Mapping[str, Any], name: str) -> float:
    return as_number(bundle.get(name)) or 0.0


def typed(types: str) -> Rule:
    """A value of these types, as type_problem takes them."""

    def rule(value: Any, path: Path, report: Report) -> None:
        problem = type_problem(value, types)
        if problem:
            report.reject(path, problem)

    return rule


def both(first: Rule, second: Rule | None) -> Rule:
    """`second` where `first` finds nothing."""
    if second is None:
        return first

    def rule(value: Any, path: Path, report: Report) -> None:
        before = len(report.problems)
        first(value, path, report)
        if len(report.problems) == before:
            second(value, path, report)

    return rule


def instead(other: str) -> Rule:
    """What Ray Serve LLM sets itself; other: what to set in its place."""

    def rule(_value: Any, path: Path, report: Report) -> None:
        report.reject(path, "cannot be set: Ray Serve LLM makes the placement group", other)

    return rule


def bucket(value: Any, path: Path, report: Report) -> None:
    """The address of a bucket."""
    if isinstance(value, str) and not value.startswith(REMOTE):
        report.reject(path, f"{shown(value)} is not the address of a bucket ({', '.join(REMOTE[:4])})")


def scaling_bounds(value: Any, path: Path, report: Report) -> None:
    """Unset bounds are 1 where autoscaling is configured by itself."""
    low, high = as_number(value.get("min_replicas", 1)), as_number(value.get("max_replicas"))
    if high is None and low is not None and low > 1:
        report.reject((*path, "min_replicas"), f"{low:g} is greater than max_replicas, which is 1 by default")
    else:
        replica_bounds_fit({"min_replicas": 1, **value}, path, report)
