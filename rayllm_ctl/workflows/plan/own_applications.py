"""spec.applications: from the spec to the applications and workers of a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rayllm_ctl.catalog import gpus
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.plan.deployment import CodeVolume, OtherApplication
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.service import Accelerator, LLMService, Resources
from rayllm_ctl.model.text.json_form import camel
from rayllm_ctl.model.text.problems import Problem
from rayllm_ctl.planner.deployment.applications import application_workers, explained, gpus_per_node, unknown_types
from rayllm_ctl.serveconfig.check import check_applications
from rayllm_ctl.serveconfig.shutdown import longest_shutdown
from rayllm_ctl.serveconfig.sizing import groups
from rayllm_ctl.workflows.plan.user_code import code_volume, with_code

WORKERS = {"rayllm.io/workers": "applications"}
"""The label of the Ray nodes for the applications: models have their own nodes."""


def read_application_code(service: LLMService) -> tuple[LLMService, CodeVolume | None]:
    """`service` with the code of its applications on the Python path, and that code."""
    folders = dict.fromkeys(
        Path(application.code) for application in service.applications if application.code is not None
    )
    code = code_volume(service.name, *folders)
    return with_code(service, code), code


def with_applications(plan: Plan, service: LLMService, code: CodeVolume | None) -> Plan:
    """`plan` with the applications of `service` and their workers, if it runs.

    Raises UsageError with all options of applications that Ray rejects.
    """
    specified = tuple(map(_application, service.applications))
    config = {"applications": list(map(_in_rays_form, specified))}
    notes = check_applications(config, _place)
    deployment = plan.deployment
    if deployment is None:
        return plan
    applications = tuple(
        replace(application, deployments=tuple(map(_placed, application.deployments))) for application in specified
    )
    catalog = gpus.load_gpus()
    worker_groups = groups(
        {"applications": [_in_rays_form(application) for application in applications]}, gpus_per_node(catalog)
    )
    # The GPU type and worker size of the spec apply to the workers of the models.
    asked = replace(service, accelerator=Accelerator(service.accelerator.kind), resources=Resources())
    workers = application_workers(
        asked, worker_groups, catalog, deployment.proxies, longest_shutdown(map(_in_rays_form, applications))
    )
    taken = {group.name for group in deployment.worker_groups} & {group.name for group in workers}
    if taken:
        raise UsageError(
            f"{taken.pop()} is the name of a model and of the workers of applications", hint="spec.models[].name"
        )
    return replace(
        plan,
        deployment=replace(
            deployment,
            applications=applications,
            code=code,
            worker_groups=(*deployment.worker_groups, *workers),
        ),
        notes=(*plan.notes, *notes, *unknown_types(worker_groups, catalog), *explained(worker_groups, workers)),
    )


def _application(application: Any) -> OtherApplication:
    return OtherApplication(
        application.name,
        application.route,
        application.import_path,
        application.args,
        application.runtime_env,
        application.deployments,
    )


def _in_rays_form(application: OtherApplication) -> dict[str, Any]:
    return {
        "name": application.name,
        "route_prefix": application.route_prefix,
        "import_path": application.import_path,
        "args": dict(application.args),
        "runtime_env": dict(application.runtime_env),
        "deployments": [dict(deployment) for deployment in application.deployments],
    }


def _placed(deployment: Any) -> dict[str, Any]:
    """The options of a deployment with the label of its workers, unless they already select workers."""
    options, bundles = deployment.get("ray_actor_options") or {}, "placement_group_bundle_label_selector"
    if options.get("label_selector") or deployment.get(bundles):
        return dict(deployment)
    if deployment.get("placement_group_bundles"):
        return {**deployment, bundles: [WORKERS]}
    return {**deployment, "ray_actor_options": {**options, "label_selector": WORKERS}}


def _place(problem: Problem) -> str:
    """A problem of a Serve configuration with the field of the spec."""
    place, rest = problem.path[:2], problem.path[2:]
    named = tuple(camel(key) if position == 0 else key for position, key in enumerate(map(str, rest[:1])))
    return str(replace(problem, path=("spec", *place, *named, *rest[1:])))
