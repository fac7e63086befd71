"""Resources that a deployment asks Ray for, and whether Ray takes them."""

from __future__ import annotations

from typing import Any

from rayllm_ctl.model.text.problems import Path
from rayllm_ctl.serveconfig.shapes import Report, as_number, entries, number, shown

_LEAST = 0.0001
"""What Ray divides a resource into (ray/_common/ray_option_utils.py, _validate_resource_quantity)."""

_within_a_node = number(at_least=0, at_most=10**14)
"""A Ray node has no more of any resource (ray/_private/ray_constants.py, MAX_RESOURCE_QUANTITY)."""


def amount(value: Any, path: Path, report: Report) -> None:
    """An amount of a resource."""
    _within_a_node(value, path, report)
    if 0 < (as_number(value) or 0) < _LEAST:
        report.reject(path, f"must be 0 or at least {_LEAST}, not {shown(value)}")


def resources(value: Any, path: Path, report: Report) -> None:
    """Custom resources of an actor."""
    before = len(report.problems)
    entries(amount)(value, path, report)
    if len(report.problems) > before:
        return
    for name, option in (("CPU", "num_cpus"), ("GPU", "num_gpus"), ("memory", "memory")):
        if name in value:
            report.reject((*path, name), f"cannot be set here: Ray has {option} for it")


def bundles_hold_the_actor(deployment: Any, path: Path, report: Report) -> None:
    """The rules of placement groups: the replica runs in the first bundle, which has to hold it."""
    bundles = deployment.get("placement_group_bundles")
    selectors = deployment.get("placement_group_bundle_label_selector")
    if bundles is None:
        for key in ("placement_group_strategy", "placement_group_bundle_label_selector"):
            if key in deployment:
                report.reject((*path, key), "requires placement_group_bundles")
        return
    at = (*path, "placement_group_bundles")
    if "max_replicas_per_node" in deployment:
        report.reject((*path, "max_replicas_per_node"), "cannot be combined with placement_group_bundles")
    if selectors is not None and len(selectors) not in (1, len(bundles)):
        report.reject(
            (*path, "placement_group_bundle_label_selector"),
            f"{len(selectors)} selectors for {len(bundles)} bundles: expected one, or one for each",
        )
    if not bundles:
        report.reject(at, "must contain a bundle")
        return
    for index, bundle in enumerate(bundles):
        if not any(as_number(amount) for amount in bundle.values()):
            report.reject((*at, index), "reserves nothing")
    for name, wanted in actor_resources(deployment).items():
        if name != "memory" and (as_number(bundles[0].get(name, 0)) or 0) < wanted:
            report.reject(
                (*at, 0), f"has less {name} than ray_actor_options asks for ({wanted:g}): the replica runs in it"
            )


def actor_resources(deployment: Any) -> dict[str, float]:
    """What the replica's actor asks for, by Ray's names, without what it does not ask for. Ray's default is one CPU."""
    options = deployment.get("ray_actor_options") or {}
    cpus = as_number(options.get("num_cpus"))
    asked = {
        "CPU": 1.0 if cpus is None else cpus,
        "GPU": as_number(options.get("num_gpus")) or 0.0,
        "memory": as_number(options.get("memory")) or 0.0,
        **{name: as_number(amount) or 0.0 for name, amount in (options.get("resources") or {}).items()},
    }
    return {name: amount for name, amount in asked.items() if amount}
