"""A Serve configuration file with models of Ray Serve LLM as an LLMService."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.llm_applications import pattern_of
from rayllm_ctl.model.kube.names import INGRESS_DEPLOYMENT
from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.service import Accelerator, LLMService, Model, ModelEngine, ModelEntry, Parallelism
from rayllm_ctl.model.text.problems import Path, Problem
from rayllm_ctl.serveconfig.llmservice import SCALING, FileModel, models, source
from rayllm_ctl.workflows.render.serve_config import read_serve_file
from rayllm_ctl.workflows.render.serve_models import chosen_gpu
from rayllm_ctl.workflows.render.types import ServeFile

_TAKEN = frozenset(
    {
        "model_loading_config",
        "engine_kwargs",
        "accelerator_type",
        "accelerator_config",
        "deployment_config",
        "llm_engine",
    }
)
"""Fields of a configuration that the spec covers as far as it has fields."""

_REPLICAS = frozenset({*SCALING.values(), "min_replicas", "max_replicas", "initial_replicas",
                       "target_ongoing_requests", "aggregation_function"})  # fmt: skip


def served_service(source_file: ServeFile) -> tuple[LLMService, tuple[str, ...]]:
    """The service that serves the models of a file, and a line for each part of the file that it does not cover.

    Raises UsageError with every problem of the file, and if it has no models.
    """
    config, _, _ = read_serve_file(source_file)
    file_models = models(config.data, source_file.service)
    if not file_models:
        raise UsageError(
            f"{source_file.file} has no application with models of Ray Serve LLM",
            hint="rayllm-ctl deploy --serve-config FILE    # any Serve configuration file as it is",
        )
    remote = [model for model in file_models if model.is_of_a_bucket]
    if remote:
        lines = [
            Problem((*model.at, "model_loading_config", "model_source"), "a spec file has no field for a bucket")
            for model in remote
        ]
        raise UsageError(
            "\n".join(map(config.place, lines)),
            hint="copy the model to a volume: model_source: /models/NAME, and --volume pvc:CLAIM:/models",
        )
    service = _service(file_models, source_file.service)
    problems = validate(service)
    if problems:
        places = _variables(config.data, file_models)
        texts = [
            config.place(replace(problem, path=places[str(problem.path[-1])]))
            if problem.path[:3] == ("spec", "engine", "env") and problem.path[-1] in places
            else str(problem)
            for problem in problems
        ]
        raise UsageError("\n".join(texts), hint=tuple(problem.hint for problem in problems if problem.hint))
    lost = [*_lost(file_models), *_lost_around(config.data)]
    return service, tuple(config.lines(lost))


def _service(file_models: Sequence[FileModel], base: LLMService) -> LLMService:
    planned = [_one(model, base) for model in file_models]
    env = {name: value for model in file_models for name, value in model.env.items() if not _is_reference(value)}
    engine = replace(base.engine, env={**env, **base.engine.env})
    if len(planned) == 1:
        (one,) = planned
        own = {field.name: getattr(one.engine, field.name) for field in fields(ModelEngine)}
        return replace(one, engine=replace(engine, **own), applications=())
    entries = tuple(_entry(model, service) for model, service in zip(file_models, planned, strict=True))
    default = LLMService(base.name)
    return replace(base, model=default.model, models=entries, engine=engine, accelerator=default.accelerator)


def _one(model: FileModel, base: LLMService) -> LLMService:
    gpu = chosen_gpu(model, base.accelerator.gpu)
    kind = model.service.accelerator.kind
    service = model.service
    # For omitted options the file means vLLM's defaults, not the planner's choice.
    layout = Parallelism(service.parallelism.tensor, service.parallelism.pipeline)
    return replace(service, accelerator=Accelerator(kind, gpu.name if gpu else None), parallelism=layout)


def _entry(model: FileModel, service: LLMService) -> ModelEntry:
    engine = ModelEngine(**{field.name: getattr(service.engine, field.name) for field in fields(ModelEngine)})
    named = {field.name: getattr(service.model, field.name) for field in fields(Model)}
    return ModelEntry(
        **named, name=model.name, engine=engine, accelerator=service.accelerator, parallelism=service.parallelism,
        replicas=service.replicas,
    )  # fmt: skip


def _is_reference(value: str) -> bool:
    """Whether Ray would expand other variables, which Kubernetes does not."""
    return "${" in value


def _variables(config: Mapping[str, Any], file_models: Sequence[FileModel]) -> dict[str, Path]:
    """The path of the service's variables in the file."""
    places: dict[str, Path] = {}
    for model in file_models:
        application = model.at[:2]
        whole = config["applications"][model.at[1]]
        owners = [(application, whole), (model.at, model.entry.config)]
        options = ("deployment_config", "ray_actor_options")
        owners.append(((*model.at, *options), model.entry.options.get(options[1]) or {}))
        for position, deployment in enumerate(whole.get("deployments") or ()):
            at = (*application, "deployments", position, options[1])
            owners.append((at, deployment.get(options[1]) or {}))
        for at, owner in owners:
            for name in (owner.get("runtime_env") or {}).get("env_vars") or {}:
                places[name] = (*at, "runtime_env", "env_vars", name)
    return places


def _lost_env(at: Path, owner: Mapping[str, Any]) -> Iterator[Problem]:
    """Parts of a runtime environment without a spec field; its variables become spec.engine.env."""
    environment = owner.get("runtime_env") or {}
    for key in environment:
        if key != "env_vars":
            yield Problem((*at, "runtime_env", key), "not taken over")
    for name, value in (environment.get("env_vars") or {}).items():
        if _is_reference(value):
            yield Problem((*at, "runtime_env", "env_vars", name), "not taken over: Kubernetes does not expand it")


def _lost(file_models: Sequence[FileModel]) -> Iterator[Problem]:
    """Parts of each model without a spec field."""
    for model in file_models:
        config = model.entry.config
        name = source(model.entry)
        if not name.startswith("/") and name != model.entry.model_id:
            yield Problem(
                (*model.at, "model_loading_config", "model_id"),
                f"not taken over: clients ask for the model as {name}, its name on the hub",
            )
        for key in config:
            if key not in (*_TAKEN, "runtime_env"):
                yield Problem((*model.at, key), "not taken over")
        yield from _lost_env(model.at, config)
        for key in model.entry.options:
            if key == "ray_actor_options":
                yield from _lost_of_actor((*model.at, "deployment_config", key), model.entry.options[key] or {})
            elif key not in ("autoscaling_config", "num_replicas"):
                yield Problem((*model.at, "deployment_config", key), "not taken over: it is planned, or Ray's default")
        for key in model.entry.options.get("autoscaling_config") or {}:
            if key not in _REPLICAS:
                yield Problem((*model.at, "deployment_config", "autoscaling_config", key), "not taken over")
        if model.engine_token is not None:
            yield Problem((*model.at, "engine_kwargs", "hf_token"), "not taken over: --hf-token-secret NAME/KEY")


def _lost_of_actor(at: Path, options: Mapping[str, Any]) -> Iterator[Problem]:
    for key in options:
        if key != "runtime_env":
            yield Problem((*at, key), "not taken over: it is planned, or Ray's default")
    yield from _lost_env(at, options)


def _lost_of_deployment(at: Path, deployment: Mapping[str, Any]) -> Iterator[Problem]:
    """Deployment options without a spec field; the spec has only the replicas of a model."""
    of_a_model = deployment["name"] != INGRESS_DEPLOYMENT
    for key, value in deployment.items():
        if key == "name" or (of_a_model and key == "num_replicas"):
            continue
        if of_a_model and key == "autoscaling_config":
            for field in value or ():
                if field not in _REPLICAS:
                    yield Problem((*at, key, field), "not taken over")
        elif of_a_model and key == "ray_actor_options":
            yield from _lost_of_actor((*at, key), value or {})
        else:
            yield Problem((*at, key), "not taken over: it is planned, or Ray's default")


def _lost_around(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Parts of the rest of the file without a spec field."""
    for key in config:
        if key != "applications":
            yield Problem((key,), "not taken over: see rayllm-ctl explain spec.serve")
    for index, application in enumerate(config["applications"]):
        at = ("applications", index)
        if pattern_of(application) is None:
            yield Problem(at, "not taken over: see rayllm-ctl explain spec.applications")
            continue
        for key in application.get("args") or {}:
            if key != "llm_configs":
                yield Problem((*at, "args", key), "not taken over: the ingress is planned")
        for key in application:
            if key not in ("name", "import_path", "args", "route_prefix", "deployments", "runtime_env"):
                yield Problem((*at, key), "not taken over")
        yield from _lost_env(at, application)
        for position, deployment in enumerate(application.get("deployments") or ()):
            yield from _lost_of_deployment((*at, "deployments", position), deployment)
        if application.get("route_prefix", "/") != "/":
            yield Problem((*at, "route_prefix"), "not taken over: the API is at /v1")
