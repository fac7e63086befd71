"""From a service to its plan: look the model and the GPUs up in the catalog, then ask the planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rayllm_ctl.errors import UserError
from rayllm_ctl.model.enginefacts import EngineFacts
from rayllm_ctl.model.hardware import GPU
from rayllm_ctl.model.plan import Plan, Reason
from rayllm_ctl.model.service import LLMService, Model

if TYPE_CHECKING:
    from rayllm_ctl.catalog.sources import FoundModel
    from rayllm_ctl.planner.memory import Draft

_UNSEEN = "unknown (the folder is only visible in the pod)"


def make_plan(
    service: LLMService,
    *,
    model_config: Path | None = None,
    offline: bool = False,
    prices: Path | None = None,
    explain: bool = False,
    hand_sized: bool | None = None,
) -> Plan:
    """The plan of `service`.

    model_config: config.json of the model, or its folder. offline: no network. prices: the user's GPU prices.
    explain: with all candidates and formulas. hand_sized: the number of replicas is the user's, not to be changed for
    the load; None: it is if it differs from the default.

    Raises UsageError for a GPU, version or file that does not exist, and UserError where the model cannot be looked up.
    A model that does not fit or contradicts itself is no error but the verdict of the plan.
    """
    from rayllm_ctl.catalog.engines import engine
    from rayllm_ctl.catalog.releases import resolve
    from rayllm_ctl.planner.deployment import with_deployment

    runtime = resolve(service.engine)
    version = engine(runtime.vllm_version)
    if service.accelerator.kind == "cpu":
        plan = _plan_cpu(service, version, model_config, offline)
    else:
        hand_sized = service.replicas.min != 1 or service.replicas.max != 1 if hand_sized is None else hand_sized
        plan = _plan_gpu(service, version, model_config, offline, prices, explain, hand_sized)
    return with_deployment(plan, service, runtime)


def _plan_cpu(service: LLMService, version: EngineFacts, model_config: Path | None, offline: bool) -> Plan:
    from rayllm_ctl.planner.cpu import plan_cpu

    found = _find_for_cpu(service, model_config, offline)
    if found is None:
        return plan_cpu(service, version, None, _UNSEEN)
    return plan_cpu(service, version, found.facts, found.source, found.warnings)


def _plan_gpu(
    service: LLMService,
    version: EngineFacts,
    model_config: Path | None,
    offline: bool,
    prices: Path | None,
    explain: bool,
    hand_sized: bool,
) -> Plan:
    from rayllm_ctl.catalog.engines import engine, versions
    from rayllm_ctl.planner.plan import decide
    from rayllm_ctl.planner.request import Request

    found = _find(service, model_config, offline)
    draft, caveats = _find_draft(service, offline)
    catalog = _gpus(prices)
    request = Request(
        service=service,
        facts=found.facts,
        source=found.source,
        engine=version,
        gpus=_wanted(service, catalog),
        catalog=tuple(catalog.values()),
        checkpoint_bytes=found.exact_bytes,
        download=service.model.path is None,
        newest=engine(versions()[-1]),
        hand_sized=hand_sized,
        notes=(*found.warnings, *((version.note,) if version.note else ())),
        draft=draft,
        caveats=caveats,
    )
    return decide(request, explain=explain)


def _find(service: LLMService, model_config: Path | None, offline: bool) -> FoundModel:
    from rayllm_ctl.catalog.sources import find

    return find(service.model, model_config=model_config, offline=offline)


def _find_draft(service: LLMService, offline: bool) -> tuple[Draft | None, tuple[Reason, ...]]:
    """The draft model that the engine arguments name, or why it cannot be counted; neither where none is named."""
    from rayllm_ctl.planner.memory import Draft, speculation

    named = speculation(service.engine.args)
    if not named.model:
        return None, ()
    uncounted = f"the draft model {named.model} is not counted"
    if named.kind is None:
        return None, (Reason("draft-model-not-counted", f"{uncounted}: its method is not known here"),)
    try:
        found = _find(replace(service, model=Model(named.model)), None, offline)
    except UserError as error:
        return None, (Reason("draft-model-not-counted", f"{uncounted}: {error.message}"),)
    return Draft(found.facts, named.kind), ()


def _find_for_cpu(service: LLMService, model_config: Path | None, offline: bool) -> FoundModel | None:
    """The model's facts, or None where it lies in a folder that only the pod sees and nobody else knows its name."""
    if service.model.path is None or model_config is not None or Path(service.model.path).is_dir():
        return _find(service, model_config, offline)
    try:
        return _find(service, None, offline=True)
    except UserError:
        return None


def _gpus(prices: Path | None) -> Mapping[str, GPU]:
    from rayllm_ctl.catalog import gpus
    from rayllm_ctl.catalog.prices import read

    return gpus.load(read(prices))


def _wanted(service: LLMService, catalog: Mapping[str, GPU]) -> tuple[GPU, ...]:
    if service.accelerator.gpu is None:
        return tuple(catalog.values())
    from rayllm_ctl.catalog.gpus import canonical

    return (catalog[canonical(service.accelerator.gpu)],)
