"""Several models in one service: a service of one model for each, which the planner understands, and checks."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayllm_ctl.model.kube.names import service_name
from rayllm_ctl.model.spec.checks.pod_fields import pod_sizes
from rayllm_ctl.model.spec.service import NO_MODEL, Engine, LLMService, Model, ModelEngine, ModelEntry
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.model.text.patterns import DNS_LABEL
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_RESERVED = {
    "ingress": "the workers of the ingress are called so",
    "headgroup": "KubeRay calls the head's group so",
}
_OF_EACH = ("engine", "accelerator", "parallelism", "replicas", "load", "resources")
"""Sections of which each model has its own."""

_OF_ALL = {
    *(("engine", name) for name in ("image", "vllm_version", "ray_version", "serving_code", "env")),
    *(("resources", name) for name in ("head", "ingress")),
}
"""Their fields that are the same for all models: a Ray cluster has one version of Ray and, here, one image."""

_MOVED = r"\bspec\.(model|engine|accelerator|parallelism|replicas|resources|load)\b"


def short_name(model: Model) -> str:
    """The name of a model's worker group, and of its application behind that of the service."""
    return (model.name if isinstance(model, ModelEntry) else None) or service_name(model.id)


def has_ingress(service: LLMService) -> bool:
    """Whether models have a Serve application each, behind an ingress with code of rayllm-ctl."""
    transformers = service.engine.kind == "transformers"
    return bool(
        service.gateway is not None or service.models or service.model.adapters or service.applications or transformers
    )


def each_model(service: LLMService) -> Mapping[str, LLMService]:
    """The models of `service` by their short names, each as a service of that model alone."""
    if not service.models:
        if service.model is NO_MODEL:
            return {}
        name = short_name(service.model)
        return {name: _with_adapters(_placed(service, name) if service.applications else service)}
    return {short_name(entry): _with_adapters(_alone(service, entry)) for entry in service.models}


def model_resource(name: str) -> str:
    """The custom Ray resource of a model: its workers offer it and each of its engine processes takes one, so that no
    replica of another model lands there."""
    return f"model:{name}"


def _alone(service: LLMService, entry: ModelEntry) -> LLMService:
    return replace(
        _placed(service, short_name(entry)),
        model=_model(entry),
        models=(),
        engine=_engine(entry, service.engine),
        accelerator=entry.accelerator,
        parallelism=entry.parallelism,
        replicas=entry.replicas,
        resources=replace(service.resources, worker=entry.resources.worker),
        load=entry.load,
    )


def _placed(service: LLMService, name: str) -> LLMService:
    """`service` with workers that only replicas of its model take."""
    scheduling = service.scheduling
    taken = {**scheduling.ray_resources, model_resource(name): 1.0}
    return replace(service, scheduling=replace(scheduling, ray_resources=taken))


def _with_adapters(service: LLMService) -> LLMService:
    """`service` with vLLM prepared for adapters, where its model has some."""
    if not service.model.adapters:
        return service
    engine = service.engine
    return replace(service, engine=replace(engine, args={"enable_lora": True, **engine.args}))


def _engine(entry: ModelEntry, of_all: Engine) -> Engine:
    """The settings of a model with what all pods run."""
    return replace(of_all, **{one.name: getattr(entry.engine, one.name) for one in dataclasses.fields(ModelEngine)})


def _model(entry: ModelEntry) -> Model:
    return Model(**{field.name: getattr(entry, field.name) for field in dataclasses.fields(Model)})


def shared_problems(service: LLMService, of_one: Callable[[LLMService], Iterable[Problem]]) -> Iterator[Problem]:
    """Problems of the models of a service, other than those of spec.model. of_one: checks one model."""
    if service.model is NO_MODEL and not service.models:
        yield Problem(("spec", "model"), "required field is missing", "spec.model.id (--model), or a list: spec.models")
    if not service.models:
        return
    if service.model is not NO_MODEL:
        yield Problem(
            ("spec", "models"), "cannot be combined with spec.model (--model)", "list the model there as well"
        )
    if service.mode == "raycluster":
        yield Problem(
            ("spec", "models"),
            "requires mode rayservice: vLLM's own server serves one model",
            "--kind rayservice, or a service for each model",
        )
    yield from _belongs_to_models(service)
    for index, entry in enumerate(service.models):
        alone = LLMService(
            service.name,
            _model(entry),
            mode="rayservice",
            engine=_engine(entry, Engine()),
            accelerator=entry.accelerator,
            parallelism=entry.parallelism,
            replicas=entry.replicas,
            load=entry.load,
        )
        found = [*of_one(alone), *pod_sizes(("spec", "resources", "worker"), entry.resources.worker)]
        yield from (_moved(problem, index) for problem in found)
    yield from _together(service.models)


def _belongs_to_models(service: LLMService) -> Iterator[Problem]:
    """Fields of the service that belong to each of its models."""
    default = LLMService("")
    for name in _OF_EACH:
        given, unset = getattr(service, name), getattr(default, name)
        for field in dataclasses.fields(given):
            if name == "replicas" and field.name in ("min", "max") and service.replicas.count is not None:
                continue  # the count says it
            if (name, field.name) not in _OF_ALL and getattr(given, field.name) != getattr(unset, field.name):
                path = (name, camel(field.name))
                yield Problem(
                    ("spec", *path),
                    "belongs to each model where there are several",
                    f"spec.models[].{'.'.join(path)}",
                )
    if service.worker_groups:
        yield Problem(
            ("spec", "workerGroups"),
            "cannot be combined with spec.models, which has a group of workers for each model",
            "spec.models[].replicas.max",
        )


def _together(models: tuple[ModelEntry, ...]) -> Iterator[Problem]:
    """Conflicts between models."""
    names: dict[str, int] = {}
    ids: dict[str, int] = {}
    for index, entry in enumerate(models):
        at = ("spec", "models", index)
        if entry.name is not None or entry.id not in ids:  # the same id has the same name
            yield from _name((*at, "name"), entry, names)
        names.setdefault(short_name(entry), index)
        of_adapters = [(("adapters", i, "id"), one.id) for i, one in enumerate(entry.adapters)]
        for where, name in ((("id",), entry.id), *of_adapters):
            if ids.setdefault(name, index) != index:
                yield Problem((*at, *where), f"{quoted(name)} is an id of spec.models[{ids[name]}] as well")
        yield from _unlike(at, entry, models[:index])


def _name(at: Path, entry: ModelEntry, names: Mapping[str, int]) -> Iterator[Problem]:
    name = short_name(entry)
    if not DNS_LABEL.fullmatch(name):
        yield Problem(at, f"{quoted(name)} is not a valid name: it must be a DNS label")
    elif name in _RESERVED:
        yield Problem(at, f"{quoted(name)} is reserved: {_RESERVED[name]}", f"for example {name}-model")
    elif name in names:
        yield Problem(at, f"{quoted(name)} is the name of spec.models[{names[name]}] as well", f"name: {name}-2")


def _unlike(at: Path, entry: ModelEntry, before: tuple[ModelEntry, ...]) -> Iterator[Problem]:
    """Settings that must be the same for all models."""
    kind = entry.accelerator.kind
    if before and kind != before[0].accelerator.kind:
        yield Problem(
            (*at, "accelerator", "kind"),
            f"{kind} and {before[0].accelerator.kind} (spec.models[0]) require different images, and all models of a "
            "service have one",
            "a service for each kind",
        )
    token = next((one.token_secret for one in before if one.token_secret is not None), None)
    if entry.token_secret is not None and token is not None and entry.token_secret != token:
        yield Problem(
            (*at, "tokenSecret"), "differs from that of another model: head and ingress read all of them with one token"
        )


def _moved(problem: Problem, index: int) -> Problem:
    """A problem of one model, at its place in the list."""
    here = f"spec.models[{index}]"

    def at(found: re.Match[str]) -> str:
        return here if found[1] == "model" else f"{here}.{found[1]}"

    _, section, *rest = problem.path
    path: tuple[Any, ...] = ("spec", "models", index, *(() if section == "model" else (section,)), *rest)
    return Problem(path, re.sub(_MOVED, at, problem.message), re.sub(_MOVED, at, problem.hint))
