"""Checks of spec.workerGroups."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.spec.checks.pod_fields import node_problems, pod_sizes, ray_resource_problems
from rayllm_ctl.model.spec.checks.ray import whole_seconds
from rayllm_ctl.model.spec.service import ExtraWorkers, LLMService
from rayllm_ctl.model.text.patterns import DNS_LABEL
from rayllm_ctl.model.text.problems import Path, Problem, quoted


def worker_group_problems(service: LLMService) -> Iterator[Problem]:
    """All that is wrong with them, in the order of the spec file."""
    names: set[str] = {service.accelerator.kind}
    for index, group in enumerate(service.worker_groups):
        at: Path = ("spec", "workerGroups", index)
        if not DNS_LABEL.fullmatch(group.name):
            yield Problem((*at, "name"), f"{quoted(group.name)} is not a valid group name: it must be a DNS label")
        elif group.name == "headgroup":
            yield Problem((*at, "name"), "is reserved: KubeRay calls the head's group so")
        elif group.name in names:
            yield Problem((*at, "name"), f"duplicate group name {quoted(group.name)}")
        names.add(group.name)
        yield from _bounds(at, group)
        yield from _size(at, group, service)
        yield from ray_resource_problems(at, group.ray_resources, demanded=False)
        yield from node_problems(at, group.node_selector, group.tolerations)


def _bounds(at: Path, group: ExtraWorkers) -> Iterator[Problem]:
    for name, count, least in (("min", group.min, 0), ("max", group.max, 1)):
        if not least <= count < 2**31:
            yield Problem((*at, name), f"must be at least {least} and less than 2147483648, not {count}")
    if group.min > group.max >= 1:
        yield Problem((*at, "min"), f"{group.min} is greater than max ({group.max})")
    yield from whole_seconds((*at, "idleTimeout"), group.idle_timeout, least=1)


def _size(at: Path, group: ExtraWorkers, service: LLMService) -> Iterator[Problem]:
    yield from pod_sizes((*at, "resources"), group.resources)
    for name, size in (("cpu", group.resources.cpu), ("memory", group.resources.memory)):
        if group.gpus == 0 and size is None:
            yield Problem((*at, "resources", name), "is required for pods without GPUs")
    if group.gpus is not None and service.accelerator.kind == "cpu":
        yield Problem((*at, "gpus"), "does not apply to CPU services")
    elif group.gpus is not None and not 0 <= group.gpus < 2**31:
        yield Problem((*at, "gpus"), f"must be at least 0, not {group.gpus}")
