"""Worker groups for the replicas of a Serve configuration: the largest replica fits one worker, all of them the groups.

Replicas without accelerators share a group; each accelerator type, each set of custom resources and each set of node
labels that replicas ask for has one of its own. A group may have as many workers as there are replicas at most, so that
all fit however Ray distributes them; workers exist only while they are needed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.llm_applications import pattern_of
from rayllm_ctl.model.plan.replica_groups import Group, Unit
from rayllm_ctl.model.text.problems import Path
from rayllm_ctl.serveconfig.placement import actor_resources
from rayllm_ctl.serveconfig.schema import DEFAULT_APPLICATION
from rayllm_ctl.serveconfig.shapes import as_number

AUTO_MAX = 100
"""max_replicas of num_replicas: auto (AutoscalingConfig.default in ray/serve/config.py)."""

NODE_GPUS = 8
"""GPUs of the largest common machine, where the type of GPU is not known."""

_TINY = 1e-9
"""What sums of resources may differ by."""

_KNOWN = ("CPU", "GPU", "memory")
_TYPE = "accelerator_type:"


def groups(
    config: Mapping[str, Any], node_gpus: Mapping[str, int], others: Iterable[Unit] = (), taken: Iterable[str] = ()
) -> tuple[Group, ...]:
    """The worker groups of a valid configuration, beside those of models that are planned for themselves.

    node_gpus: the most GPUs of a machine by accelerator type. others: what else needs a place. taken: names of groups.
    """
    found: dict[tuple[Any, ...], list[Unit]] = {}
    for unit in (*units(config, node_gpus), *others):
        custom = tuple(sorted(name for name in unit.resources if name not in _KNOWN))
        key = (unit.accelerator or "", unit.resources.get("GPU", 0) > 0, custom, tuple(sorted(unit.labels.items())))
        found.setdefault(key, []).append(unit)
    names = set(taken)
    return tuple(_group(_name(key, names), tuple(members)) for key, members in sorted(found.items()))


def units(config: Mapping[str, Any], node_gpus: Mapping[str, int]) -> Iterator[Unit]:
    """The units of every deployment that the configuration lists; an application without any counts as one CPU."""
    for index, application in enumerate(config["applications"]):
        if pattern_of(application) is not None:
            continue
        at: Path = ("applications", index)
        name = application.get("name", DEFAULT_APPLICATION)
        deployments = application.get("deployments") or []
        if not deployments:
            yield Unit(f"application {name}", at, {"CPU": 1.0}, None, {}, 1, 1)
        for position, deployment in enumerate(deployments):
            here = (*at, "deployments", position)
            yield from _units(f"{name}/{deployment['name']}", here, deployment, node_gpus)


def _units(name: str, path: Path, deployment: Mapping[str, Any], node_gpus: Mapping[str, int]) -> Iterator[Unit]:
    options = deployment.get("ray_actor_options") or {}
    accelerator = options.get("accelerator_type")
    low, high = replica_bounds(deployment)
    high += math.ceil(high * (as_number(deployment.get("max_surge_percent")) or 0) / 100)
    per_worker = deployment.get("max_replicas_per_node")
    bundles = [_amounts(bundle) for bundle in deployment.get("placement_group_bundles") or ()]
    of_bundles = deployment.get("placement_group_bundle_label_selector") or [{}]
    labels = _labels(options.get("label_selector") or of_bundles[0])
    whole = _sum(bundles) if bundles else actor_resources(deployment)
    strategy = deployment.get("placement_group_strategy", "PACK")
    beyond_a_node = whole.get("GPU", 0) > node_gpus.get(accelerator or "", NODE_GPUS)
    if bundles and ("SPREAD" in strategy or (strategy == "PACK" and beyond_a_node)):
        for index, bundle in enumerate(bundles):
            yield Unit(f"{name} bundle {index}", path, bundle, accelerator, labels, low, high, 1)
    else:
        yield Unit(name, path, whole, accelerator, labels, low, high, per_worker)
    for actor in deployment.get("deployment_actors") or ():
        needs = actor_resources({"ray_actor_options": actor.get("actor_options")})
        yield Unit(f"{name} actor {actor['name']}", path, needs, None, {}, 1, 1)


def _labels(selector: Mapping[str, str]) -> dict[str, str]:
    """The labels that a node must have by a selector; what it must not have, or may have of several, is left out."""
    return {key: value for key, value in selector.items() if value and not value.startswith(("!", "in("))}


def replica_bounds(deployment: Mapping[str, Any]) -> tuple[int, int]:
    """Replicas of a deployment when it starts and at most, with Ray's defaults."""
    fixed, scaling = deployment.get("num_replicas"), deployment.get("autoscaling_config")
    if fixed != "auto" and scaling is None:
        return (int(fixed or 1),) * 2
    scaling = scaling or {}
    low = int(as_number(scaling.get("min_replicas", 1)) or 0)
    high = int(as_number(scaling.get("max_replicas", AUTO_MAX if fixed == "auto" else 1)) or 1)
    return max(low, int(as_number(scaling.get("initial_replicas")) or 0)), max(low, high)


def _amounts(bundle: Mapping[str, Any]) -> dict[str, float]:
    return {name: amount for name, value in bundle.items() if (amount := as_number(value) or 0.0)}


def _sum(bundles: list[dict[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for bundle in bundles:
        for name, amount in bundle.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _group(name: str, members: tuple[Unit, ...]) -> Group:
    def most(resource: str) -> float:
        return max(unit.resources.get(resource, 0.0) for unit in members)

    accelerator = members[0].accelerator
    gpus = math.ceil(most("GPU"))
    custom = sorted({name for unit in members for name in unit.resources if name not in _KNOWN})
    group = Group(
        name=name,
        units=members,
        accelerator=accelerator,
        labels=members[0].labels,
        cpus=max(1, math.ceil(most("CPU"))),
        gpus=max(1, gpus) if accelerator else gpus,
        memory=math.ceil(most("memory")),
        custom={resource: float(math.ceil(most(resource))) for resource in custom if not resource.startswith(_TYPE)},
        min_workers=0,
        max_workers=max(1, sum(unit.high for unit in members)),
    )
    return Group(**{**vars(group), "min_workers": _packed(group)})


@dataclass(frozen=True)
class _Workers:
    """So many workers that hold the same. free: what they have left; held: replicas by the name of their unit."""

    count: int
    free: Mapping[str, float]
    held: Mapping[str, int]

    def capacity(self, unit: Unit) -> float:
        """How many more replicas each of them holds; infinite if these ask for nothing."""
        limits = [(self.free.get(name, 0.0) + _TINY) // amount for name, amount in unit.resources.items()]
        if unit.per_worker is not None:
            limits.append(unit.per_worker - self.held.get(unit.name, 0))
        return max(0.0, min(limits, default=math.inf))

    def with_replicas(self, count: int, unit: Unit, each: int) -> _Workers:
        """`count` of them, each with so many replicas more."""
        taken = {name: self.free.get(name, 0.0) - each * amount for name, amount in unit.resources.items()}
        held = {**self.held, unit.name: self.held.get(unit.name, 0) + each}
        return _Workers(count, {**self.free, **taken}, held)


def _packed(group: Group) -> int:
    """Workers that hold the replicas of the start, the largest placed first, each on the first worker that holds it.

    The replicas of a deployment are alike: they fill one worker after the other, and those that hold the same are
    counted instead of listed, since a file may ask for two billion.
    """
    offer = {"CPU": float(group.cpus), "GPU": float(group.gpus), "memory": float(group.memory), **group.custom}
    workers: list[_Workers] = []
    for unit in sorted(group.units, key=lambda unit: -max(unit.resources.values(), default=0.0)):
        left, filled = unit.low, list[_Workers]()
        # At last workers that are new; they hold one replica each even if the group lacks what it asks for.
        for alike in (*workers, _Workers(unit.low, offer, {})):
            new = not alike.held
            each = int(min(left, max(alike.capacity(unit), 1 if new else 0)))
            full = min(alike.count, left // each) if each else 0
            rest = left - full * each if full < alike.count and each else 0
            filled += [alike.with_replicas(full, unit, each)] if full else []
            filled += [alike.with_replicas(1, unit, rest)] if rest else []
            same = alike.count - full - (1 if rest else 0)
            filled += [replace(alike, count=same)] if same and not new else []
            left -= full * each + rest
        workers = filled
    return sum(alike.count for alike in workers)


def _name(key: tuple[Any, ...], taken: set[str]) -> str:
    """A name for the group: its accelerator, its custom resources, gpu or cpu; a DNS label, no two the same."""
    accelerator, gpu, custom, labels = key
    words = accelerator or "-".join(custom) or ("gpu" if gpu else "cpu")
    words += "-" + "-".join(value for _, value in labels) if labels else ""
    base = re.sub(r"[^a-z0-9]+", "-", words.lower())[:30].strip("-")
    base = base if base and base[0].isalpha() else f"group-{base}".rstrip("-")
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name)
    return name
