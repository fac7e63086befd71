"""Checks of spec.applications. What Ray rejects of an application is found when it is planned."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.kube.llm_applications import is_of_ray_serve_llm
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.spec.several_models import each_model
from rayllm_ctl.model.text.patterns import DNS_LABEL
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_OF_THE_MODELS = ("/v1", "/-")
"""Below these the ingress of the models and Serve itself answer."""


def application_problems(service: LLMService) -> Iterator[Problem]:
    """All that is wrong with them, in the order of the spec file."""
    at: Path = ("spec", "applications")
    if service.applications and service.mode == "raycluster":
        yield Problem(at, "requires mode rayservice: vLLM's own server runs without Ray Serve", "--kind rayservice")
    if service.applications and service.worker_groups:
        yield Problem(
            ("spec", "workerGroups"),
            "cannot be combined with spec.applications, which has groups of workers of its own",
        )
    names = {service.name: "the ingress of the models"}
    names |= {f"{service.name}-{name}": f"model {name}" for name in each_model(service)}
    routes = {"/": "the ingress of the models"}
    for index, application in enumerate(service.applications):
        here, called = (*at, index), f"spec.applications[{index}]"
        if not DNS_LABEL.fullmatch(application.name):
            yield Problem((*here, "name"), f"{quoted(application.name)} is not a valid name: it must be a DNS label")
        elif application.name in names:
            yield Problem(
                (*here, "name"), f"{quoted(application.name)} is the name of {names[application.name]} as well"
            )
        names.setdefault(application.name, called)
        if is_of_ray_serve_llm({"import_path": application.import_path}):
            yield Problem(
                (*here, "importPath"),
                "builds models of Ray Serve LLM, whose GPUs are not sized here",
                "list the models in spec.models (rayllm-ctl init --from-serve-config)",
            )
        if not application.deployments:
            yield Problem(
                (*here, "deployments"), "must list the deployments: their workers are sized and found by what it says"
            )
        route = application.route
        if route in routes:
            yield Problem((*here, "routePrefix"), f"{quoted(route)} is that of {routes[route]} as well")
        elif any(route == one or route.startswith(f"{one}/") for one in _OF_THE_MODELS):
            yield Problem((*here, "routePrefix"), f"{quoted(route)} is reserved for the models and for Serve itself")
        routes.setdefault(route, called)
