"""A Serve configuration file of the user's own: from the file to manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rayllm_ctl.catalog import gpus
from rayllm_ctl.catalog.rayserve import fields
from rayllm_ctl.catalog.releases import resolve_release
from rayllm_ctl.errors import UsageError
from rayllm_ctl.files import read_input
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.llm_applications import described_models, pattern_of
from rayllm_ctl.model.plan.applications import Applications
from rayllm_ctl.model.plan.deployment import Runtime
from rayllm_ctl.model.plan.llm_fields import LLMFields
from rayllm_ctl.model.plan.plan import StartupPlan
from rayllm_ctl.model.spec.service import Accelerator
from rayllm_ctl.model.text.yaml_text import dump
from rayllm_ctl.planner.deployment.applications import applications, gpus_per_node, unknown_types
from rayllm_ctl.planner.deployment.images import image_warnings
from rayllm_ctl.planner.deployment.ray_token import TokenDecision, with_token
from rayllm_ctl.render.applications import render_applications
from rayllm_ctl.render.podparts import check_pod_security
from rayllm_ctl.serveconfig.check import read_serve_config
from rayllm_ctl.serveconfig.llmfill import filled
from rayllm_ctl.serveconfig.shutdown import longest_shutdown
from rayllm_ctl.serveconfig.sizing import groups
from rayllm_ctl.workflows.plan.user_code import code_volume, with_code
from rayllm_ctl.workflows.render.check import check_objects
from rayllm_ctl.workflows.render.serve_models import plan_models, workers

if TYPE_CHECKING:
    from rayllm_ctl.serveconfig.check import ServeConfig
    from rayllm_ctl.workflows.render.serve_models import PlannedModel
    from rayllm_ctl.workflows.render.types import RenderOptions, ServeFile


@dataclass(frozen=True)
class PlannedApplications:
    """The applications and workers of a file, and notes with line numbers.

    startup: of the slowest model of Ray Serve LLM, if any.
    """

    applications: Applications
    notes: tuple[str, ...]
    startup: StartupPlan | None


def plan_applications(source: ServeFile, options: RenderOptions) -> PlannedApplications:
    """The plan of `source`. Raises UsageError with every problem of the file and its line, and UserError for a model
    that does not fit."""
    config, fields, runtime = read_serve_file(source)
    catalog = gpus.load_gpus()
    code = code_volume(source.service.name, *([source.code] if source.code else []))
    service = with_code(source.service, code)
    planned = plan_models(
        config.data, service, runtime, options.facts, config.place, accept_risk=options.accept_risk
    )  # fmt: skip
    if service.model.token_secret is not None and not planned:
        raise UsageError(f"--hf-token-secret: {source.file} has no application with models of Ray Serve LLM")
    data, added = filled(
        config.data,
        ((planned_model.model, planned_model.serve, planned_model.plan.engine) for planned_model in planned),
    )
    shutdown = longest_shutdown(data.get("applications") or ())
    served, ingresses = workers(planned, data, service, shutdown) if planned else (None, ())
    worker_groups = groups(
        data, gpus_per_node(catalog), ingresses, [group.name for group in served.groups] if served else ()
    )  # fmt: skip
    named = service.accelerator.gpu
    on_gpus = any(group.gpus for group in worker_groups) or any(
        planned_model.model.hardware == "gpu" for planned_model in planned
    )
    service = replace(
        service,
        accelerator=Accelerator(kind="gpu" if on_gpus else "cpu", gpu=gpus.canonical(named) if named else None),
    )
    runtime = _image_of(planned, runtime)
    planned_applications = applications(
        service, worker_groups, catalog, runtime, config.proxies, dump(data), code, shutdown, served
    )  # fmt: skip
    notes = (*config.notes, *config.lines(added), *_unlisted(data), *unknown_types(worker_groups, catalog))
    notes += (fields.note,) if planned and fields.note else ()
    notes += tuple(image_warnings(runtime, [model.plan.gpu for model in planned if model.plan.gpu])) if planned else ()
    return PlannedApplications(planned_applications, notes, served.startup if served else None)


def render_planned(
    planned: PlannedApplications, options: RenderOptions, token: TokenDecision
) -> tuple[dict[str, Any], ...]:
    """The manifests of a planned file. Raises UserError if they are not valid for `options.kuberay`."""
    deployed = replace(planned.applications, ray=with_token(planned.applications.ray, token))
    manifests = render_applications(deployed)
    check_objects(manifests, options.kuberay)
    check_pod_security(manifests, deployed.pod_security)
    return tuple(manifests)


def _image_of(planned: Iterable[PlannedModel], runtime: Runtime) -> Runtime:
    """`runtime`, without the public image if it does not support one of the models."""
    each = [model.plan.deployment.runtime for model in planned if model.plan.deployment is not None]
    return next((model_runtime for model_runtime in each if model_runtime.image is None), runtime)


def read_serve_file(source: ServeFile) -> tuple[ServeConfig, LLMFields, Runtime]:
    """The configuration of a file, checked for the version of Ray in the image. Raises UsageError with every problem
    and its line."""
    runtime = resolve_release(source.service.engine)
    known = fields(runtime)
    return read_serve_config(_text(source.file), str(source.file), known), known, runtime


def _text(file: Path) -> str:
    try:
        return read_input(file, "--serve-config FILE").decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}", hint=f"ls -l {file}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file}: the file is not valid UTF-8") from None


def _unlisted(config: dict[str, Any]) -> Iterator[str]:
    for application in config["applications"]:
        name = application.get("name", "default")
        if pattern_of(application) is not None:
            continue
        if any(entry.path != ("args",) for entry in described_models(application)):
            builder = application["import_path"]
            yield f"application {name} has llm_configs, and {builder} may not read them: its models are not planned"
        if not application.get("deployments"):
            yield (
                f"application {name} lists no deployments: sized for one replica of one CPU "
                "(`serve build` writes a file that lists them)"
            )
