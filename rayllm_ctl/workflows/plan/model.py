"""From a service to its plan: look the model and the GPUs up in the catalog, then ask the planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rayllm_ctl.catalog import calibrations, gpus, prices
from rayllm_ctl.catalog.engines import engine, engine_versions
from rayllm_ctl.catalog.releases import require_release, resolve_release
from rayllm_ctl.catalog.sources import find
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.model.plan.calibration import Calibration
from rayllm_ctl.model.plan.deployment import Runtime
from rayllm_ctl.model.plan.engine_facts import EngineFacts
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Plan, Reason
from rayllm_ctl.model.spec.checks.ray_features import needed_features
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.service import LLMService, Model
from rayllm_ctl.model.spec.several_models import each_model, has_ingress
from rayllm_ctl.planner.deployment.deployment import with_deployment
from rayllm_ctl.planner.deployment.gateway import with_serving_code
from rayllm_ctl.planner.engine.cpu import plan_cpu
from rayllm_ctl.planner.joint import joint_plan
from rayllm_ctl.planner.memory import Draft, speculation
from rayllm_ctl.planner.memory.checkpoint import fitted
from rayllm_ctl.planner.plan import decide
from rayllm_ctl.planner.request import Request
from rayllm_ctl.workflows.plan.warnings import UNSEEN, warned

if TYPE_CHECKING:
    from rayllm_ctl.catalog.sources import FoundModel
    from rayllm_ctl.planner.memory import Draft
    from rayllm_ctl.planner.request import Request


def make_plan(
    service: LLMService,
    facts: FactSources,
    *,
    explain: bool = False,
    hand_sized: bool | None = None,
    curve: bool = False,
) -> Plan:
    """The plan of `service`.

    explain: with all candidates and formulas. curve: with the speed by requests in flight. hand_sized: keep the user's
    number of replicas regardless of the load; None: if it differs from the default.

    Raises UsageError for a GPU, version or file that does not exist, and UserError if the model cannot be looked up.
    A model that does not fit or contradicts itself is not an error but a verdict of the plan.
    """
    if service.applications:
        from rayllm_ctl.workflows.plan.own_applications import read_application_code, with_applications

        service, code = read_application_code(service)
        plan = _plan_models(service, facts, explain, hand_sized, curve)
        return with_applications(plan, service, code)
    return _plan_models(service, facts, explain, hand_sized, curve)


def _plan_models(
    service: LLMService,
    facts: FactSources,
    explain: bool,
    hand_sized: bool | None,
    curve: bool,
) -> Plan:
    if has_ingress(service):
        service = with_serving_code(service)
    runtime, alone = resolve_release(service.engine), each_model(service)
    require_release(needed_features(service), runtime, service.engine)
    configs = (
        model_configs(facts.model_config, tuple(alone)) if service.models else dict.fromkeys(alone, facts.model_config)
    )
    plans = {
        name: warned(
            service_of_one,
            plan_one(service_of_one, runtime, replace(facts, model_config=configs[name]), explain, hand_sized, curve),
        )
        for name, service_of_one in alone.items()
    }
    if service.models:
        return joint_plan(plans, service, runtime)
    ((name, plan),) = plans.items()
    return with_deployment(plan, alone[name], runtime)


def model_configs(folder: Path | None, names: Sequence[str]) -> dict[str, Path | None]:
    """The configurations of several models that `folder` contains."""
    folders = {name: folder / name if folder is not None and (folder / name).is_dir() else None for name in names}
    if folder is not None and not any(folders.values()):
        raise UsageError(
            f"{folder}: has no folder of any of the models ({', '.join(names)})",
            hint=f"--model-config {folder}    # reads {folder / names[0] / 'config.json'}",
        )
    return folders


def plan_one(
    service: LLMService,
    runtime: Runtime,
    facts: FactSources,
    explain: bool,
    hand_sized: bool | None,
    curve: bool = False,
) -> Plan:
    """The plan of a service of one model, without its deployment. Arguments and errors are those of make_plan."""
    version = engine(runtime.vllm_version)
    if service.engine.kind == "transformers":
        return _plan_transformers(service, version, facts, explain)
    if service.accelerator.kind == "cpu":
        return _plan_cpu(service, version, facts)
    if hand_sized is None:
        given = service.replicas
        hand_sized = given.count is not None or given.min != 1 or given.max != 1
    return _plan_gpu(service, version, facts, explain, hand_sized, curve)


def _plan_cpu(service: LLMService, version: EngineFacts, facts: FactSources) -> Plan:
    facts_of_model = _find_for_cpu(service, facts)
    if facts_of_model is None:
        return plan_cpu(service, version, None, UNSEEN)
    return plan_cpu(service, version, facts_of_model.facts, facts_of_model.source, facts_of_model.warnings)


def _plan_gpu(
    service: LLMService,
    version: EngineFacts,
    facts: FactSources,
    explain: bool,
    hand_sized: bool,
    curve: bool,
) -> Plan:
    request = gpu_request(service, version, facts, hand_sized)
    return decide(request, explain=explain, curve=curve)


def gpu_request(
    service: LLMService,
    version: EngineFacts,
    facts: FactSources,
    hand_sized: bool,
) -> Request:
    """The planner's request for a model of vLLM on GPUs. Arguments and errors are those of make_plan."""
    facts_of_model = _find(service, facts)
    draft, caveats = _find_draft(service, facts)
    catalog = _gpus(facts)
    return Request(
        service=service,
        facts=facts_of_model.facts,
        source=facts_of_model.source,
        engine=version,
        gpus=_wanted(service, catalog),
        catalog=tuple(catalog.values()),
        checkpoint_bytes=facts_of_model.exact_bytes,
        newest=engine(engine_versions()[-1]),
        hand_sized=hand_sized,
        notes=(*facts_of_model.warnings, *((version.note,) if version.note else ())),
        draft=draft,
        caveats=caveats,
        calibrations=_calibrations(service),
    )


def _plan_transformers(
    service: LLMService,
    version: EngineFacts,
    facts: FactSources,
    explain: bool,
) -> Plan:
    on_cpu = service.accelerator.kind == "cpu"
    facts_of_model = (_find_for_cpu if on_cpu else _find)(service, facts)
    if facts_of_model is None:
        from rayllm_ctl.planner.transformers.cpu import plan_unseen_cpu

        return plan_unseen_cpu(service, UNSEEN)
    catalog = {} if on_cpu else _gpus(facts)
    request = Request(
        service=service,
        facts=facts_of_model.facts,
        source=facts_of_model.source,
        engine=version,
        gpus=() if on_cpu else _wanted(service, catalog),
        catalog=tuple(catalog.values()),
        checkpoint_bytes=facts_of_model.exact_bytes,
        notes=facts_of_model.warnings,
    )
    if on_cpu:
        from rayllm_ctl.planner.transformers.cpu import plan_transformers_cpu

        return plan_transformers_cpu(request)
    from rayllm_ctl.planner.transformers.gpu import plan_transformers

    return plan_transformers(request, explain=explain)


def _find(service: LLMService, facts: FactSources) -> FoundModel:
    """The model's facts; layers that were read generically fill the checkpoint where its size is known."""
    found = find(service.model, facts)
    return replace(found, facts=fitted(found.facts, found.exact_bytes))


def _find_draft(service: LLMService, facts: FactSources) -> tuple[Draft | None, tuple[Reason, ...]]:
    """The draft model that the engine arguments name, or why it cannot be counted; neither if none is named."""
    named = speculation(service.engine.args)
    if not named.model:
        return None, ()
    uncounted = f"the draft model {named.model} is not counted"
    if named.kind is None:
        return None, (Reason("draft-model-not-counted", f"{uncounted}: its method is unknown to the planner"),)
    try:
        draft = _find(replace(service, model=Model(named.model)), replace(facts, model_config=None))
    except UserError as error:
        return None, (Reason("draft-model-not-counted", f"{uncounted}: {error.message}"),)
    doubts = "; ".join(draft.facts.assumed)
    caveats = (Reason("draft-read-generically", f"the draft model {named.model}: {doubts}"),) if doubts else ()
    return Draft(draft.facts, named.kind), caveats


def _find_for_cpu(service: LLMService, facts: FactSources) -> FoundModel | None:
    """The model's facts, or None if it is in a folder that only the pod sees and its name is not known elsewhere."""
    if service.model.path is None or facts.model_config is not None or Path(service.model.path).is_dir():
        return _find(service, facts)
    try:
        return _find(service, replace(facts, offline=True))
    except UserError:
        return None


def _calibrations(service: LLMService) -> tuple[Calibration, ...]:
    if service.load.calibration is None:
        return ()
    return calibrations.read_calibrations(Path(service.load.calibration))


def _gpus(facts: FactSources) -> Mapping[str, GPU]:
    return gpus.load_gpus(prices.read_prices(facts.prices, named_only=facts.named_only))


def _wanted(service: LLMService, catalog: Mapping[str, GPU]) -> tuple[GPU, ...]:
    named = None if service.accelerator.gpu is None else catalog[gpus.canonical(service.accelerator.gpu)]
    return gpus.selected(service.scheduling.node_selector, named, catalog)
