"""Fault tolerance of the GCS: Ray's cluster state outside of the head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.kinds.rules.fields import items, section
from rayllm_ctl.model.text.problems import Path, Problem

_ENABLED = "ray.io/ft-enabled"
_NAMESPACE = "ray.io/external-storage-namespace"
_ADDRESS, _PASSWORD, _USER = "RAY_REDIS_ADDRESS", "REDIS_PASSWORD", "REDIS_USERNAME"
_OF_REDIS = ("redisAddress", "redisUsername", "redisPassword", "externalStorageNamespace")


def recovery_problems(spec: Mapping[str, Any], annotations: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    """Options that contradict each other, or that the operator sets itself."""
    options = spec.get("gcsFaultToleranceOptions")
    head, path = section(spec, "headGroupSpec"), (*at, "headGroupSpec")
    parameters = section(head, "rayStartParams")
    variables = _variables(head, path)
    if _USER in variables:
        yield Problem(variables[_USER], f"{_USER} cannot be set here", "use gcsFaultToleranceOptions.redisUsername")
    if parameters.get("redis-username"):
        place = (*path, "rayStartParams", "redis-username")
        yield Problem(place, "cannot be set here", "use gcsFaultToleranceOptions.redisUsername")
    if not isinstance(options, Mapping):
        if str(annotations.get(_ENABLED, "")).lower() != "true" and _ADDRESS in variables:
            yield Problem(variables[_ADDRESS], f"{_ADDRESS} requires gcsFaultToleranceOptions")
        return
    for name, field in ((_ENABLED, ""), (_NAMESPACE, ".externalStorageNamespace")):
        if annotations.get(name):
            yield Problem(
                ("metadata", "annotations", name),
                "cannot be combined with gcsFaultToleranceOptions",
                f"use gcsFaultToleranceOptions{field}",
            )
    if parameters.get("redis-password"):
        place = (*path, "rayStartParams", "redis-password")
        yield Problem(place, "cannot be set here", "use gcsFaultToleranceOptions.redisPassword")
    for name, field in ((_PASSWORD, "redisPassword"), (_ADDRESS, "redisAddress")):
        if name in variables:
            yield Problem(variables[name], f"{name} cannot be set here", f"use gcsFaultToleranceOptions.{field}")
    yield from _backend(options, (*at, "gcsFaultToleranceOptions"))


def _backend(options: Mapping[str, Any], at: Path) -> Iterator[Problem]:
    """Fields of one backend combined with another (KubeRay 1.7)."""
    if options.get("backend") == "rocksdb":
        for name in _OF_REDIS:
            if options.get(name):
                yield Problem((*at, name), "does not apply to the backend rocksdb")
        storage = section(options, "storage")
        for name in ("size", "storageClassName", "accessModes"):
            if storage.get("claimName") and storage.get(name):
                yield Problem((*at, "storage", name), "cannot be combined with claimName")
    elif options.get("storage"):
        yield Problem((*at, "storage"), "applies to the backend rocksdb alone")


def _variables(head: Mapping[str, Any], path: Path) -> dict[str, Path]:
    """The variables of the head's Ray container, which is the first, and where they stand."""
    containers = items(head, "template", "spec", "containers")
    entries = items(containers[0], "env") if containers else ()
    at = (*path, "template", "spec", "containers", 0, "env")
    return {str(entry.get("name")): (*at, index) for index, entry in enumerate(entries)}
