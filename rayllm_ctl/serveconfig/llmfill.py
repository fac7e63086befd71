"""What a Serve configuration leaves open of its models, filled in as for a service of our own.

Only what is not stated is added, in the arguments of the builder; a file that has it all stays as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from rayllm_ctl.model.plan.deployment import ServeApplication
from rayllm_ctl.model.plan.plan import EngineSettings
from rayllm_ctl.model.text.problems import Problem
from rayllm_ctl.serveconfig.llmservice import FileModel


def filled(
    config: Mapping[str, Any], planned: Iterable[tuple[FileModel, ServeApplication, EngineSettings | None]]
) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """`config` with the additions, and a note for each model that got some. planned: the models as they are planned."""
    result, notes = copy.deepcopy(dict(config)), []
    for model, serve, engine in planned:
        target: Any = result
        for part in model.at:
            target = target[part]
        added = [*_settings(model, engine), *_additions(model, serve)]
        for path, value in added:
            _put(target, path, value)
        if added:
            said = ", ".join(f"{'.'.join(path)}: {_shown(value)}" for path, value in added)
            notes.append(Problem(model.at, f"added, as for a service that is planned from a model: {said}"))
    return result, tuple(notes)


def _settings(model: FileModel, engine: EngineSettings | None) -> Iterable[tuple[tuple[str, ...], Any]]:
    """The settings of the engine that the plan stands on."""
    given = model.entry.config.get("engine_kwargs") or {}
    if engine is None:
        return
    names = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "dtype", "gpu_memory_utilization")
    planned = {**{name: getattr(engine, name) for name in names}, **engine.args}
    for name, value in planned.items():
        if value is not None and given.get(name) is None:
            yield ("engine_kwargs", name), value


def _additions(model: FileModel, serve: ServeApplication) -> Iterable[tuple[tuple[str, ...], Any]]:
    config, options = model.entry.config, model.options
    if model.ray_type is None and serve.accelerator_type is not None:
        yield ("accelerator_type",), serve.accelerator_type
    # Ray's own group is as good where the pods of a replica are for it alone, and it takes several.
    if config.get("placement_group_config") is None and (serve.placement_strategy != "PACK" or serve.ray_resources):
        bundle = {serve.bundle_resource: 1, **{name: _whole(amount) for name, amount in serve.ray_resources.items()}}
        yield ("placement_group_config",), {"strategy": serve.placement_strategy, "bundle_per_worker": bundle}
    scaling = options.get("autoscaling_config")
    autoscaled = serve.autoscaling.max_replicas > serve.autoscaling.min_replicas
    if autoscaled and isinstance(scaling, Mapping) and scaling.get("target_ongoing_requests") is None:
        # Ray Serve LLM's default is a billion: it would never scale up.
        target = serve.autoscaling.target_ongoing_requests
        yield ("deployment_config", "autoscaling_config", "target_ongoing_requests"), target
    if not {"health_check_period_s", "health_check_timeout_s"} & options.keys():
        yield ("deployment_config", "health_check_period_s"), serve.health_check_period
        yield ("deployment_config", "health_check_timeout_s"), serve.health_check_timeout
    if "graceful_shutdown_timeout_s" not in options:
        yield ("deployment_config", "graceful_shutdown_timeout_s"), serve.graceful_shutdown_timeout


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for part in path[:-1]:
        if target.get(part) is None:
            target[part] = {}
        target = target[part]
    target[path[-1]] = value


def _whole(amount: float) -> float:
    return int(amount) if amount == int(amount) else amount


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shown(item)}" for key, item in value.items()) + "}"
    return str(value)
