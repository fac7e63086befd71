"""The models of Ray Serve LLM in a Serve configuration file: each planned like a separate service."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rayllm_ctl.catalog import gpus
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.llm_applications import deployment_options
from rayllm_ctl.model.kube.names import INGRESS_DEPLOYMENT
from rayllm_ctl.model.kube.quantities import GIB, parse_quantity
from rayllm_ctl.model.plan.deployment import Runtime, ServeApplication, WorkerGroup
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.plan.replica_groups import Unit
from rayllm_ctl.model.spec.checks.engine_args import OWN_FIELD
from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.service import Accelerator, LLMService
from rayllm_ctl.model.spec.several_models import model_resource
from rayllm_ctl.model.text.problems import Problem
from rayllm_ctl.planner.deployment.applications import ServedModels, model_workers, node_labels, served_models
from rayllm_ctl.planner.deployment.deployment import deployed
from rayllm_ctl.planner.engine.parallelism import PERMITTED
from rayllm_ctl.serveconfig.llmservice import FileModel, bundles, models, placement_problems
from rayllm_ctl.serveconfig.placeholders import is_reference
from rayllm_ctl.serveconfig.placement import actor_resources
from rayllm_ctl.serveconfig.sizing import replica_bounds
from rayllm_ctl.workflows.plan.model import model_configs, plan_one
from rayllm_ctl.workflows.plan.verdict import require_runnable
from rayllm_ctl.workflows.plan.warnings import TOKEN_VARIABLES, warned

_FLAG = re.compile(r"(--[a-z-]+) ([^\s;,]+)( (?=--)|)")
_FIELDS = {
    **{flag: f"engine_kwargs.{argument}" for argument, (_, flag) in OWN_FIELD.items() if argument != "hf_token"},
    "--replicas": "deployment_config.num_replicas",
    "--min-replicas": "deployment_config.autoscaling_config.min_replicas",
    "--max-replicas": "deployment_config.autoscaling_config.max_replicas",
}
"""Flags that describe a model, and the fields of a configuration of Ray Serve LLM."""

ModelPlace = Callable[[Problem], str]
"""A problem of the file as a line of text, with its line in the file."""


@dataclass(frozen=True)
class PlannedModel:
    """A model of the file and its plan, which runs."""

    model: FileModel
    plan: Plan

    @property
    def serve(self) -> ServeApplication:
        """The application that a separate service would have."""
        assert self.plan.deployment is not None
        assert self.plan.deployment.serve is not None
        return self.plan.deployment.serve


def plan_models(
    config: Mapping[str, object], base: LLMService, runtime: Runtime, facts: FactSources, place: ModelPlace, *,
    accept_risk: bool,
) -> tuple[PlannedModel, ...]:  # fmt: skip
    """The models of a valid configuration, planned. base: pods, image and scheduling from flags.

    Raises UsageError with every incomplete model, and UserError for those that do not fit, each with its line.
    """
    file_models = models(config, base)
    _require_planable(file_models, base, place)
    _require_used(file_models, base.accelerator.gpu)
    apart = len(file_models) > 1 or len(_list(config)) > 1
    names = [model.name for model in file_models]
    configs = (
        model_configs(facts.model_config, names) if len(file_models) > 1 else dict.fromkeys(names, facts.model_config)
    )
    return tuple(
        _planned(model, base, runtime, replace(facts, model_config=configs[model.name]), place, apart, accept_risk)
        for model in file_models
    )


def _list(config: Mapping[str, object]) -> Sequence[object]:
    applications = config["applications"]
    return applications if isinstance(applications, list) else ()


def _require_planable(file_models: Iterable[FileModel], base: LLMService, place: ModelPlace) -> None:
    """Raise UsageError with everything that prevents planning, independent of the models' facts."""
    problems: list[Problem] = []
    for model in file_models:
        problems += [
            model.problem(problem) for problem in validate(_with_gpu(model, None)) if _is_of_the_model(problem)
        ]
        if model.hardware == "tpu":
            problems.append(Problem(model.at, "TPUs cannot be planned", "accelerator_config: {kind: gpu}, or cpu"))
        elif model.hardware == "gpu":
            problems += _gpu_problems(model, base.accelerator.gpu)
    if problems:
        raise UsageError(
            "\n".join(map(place, problems)),
            hint=tuple(dict.fromkeys(problem.hint for problem in problems if problem.hint)),
        )


def _is_of_the_model(problem: Problem) -> bool:
    """Problems of the file: flags for pods and image were already checked."""
    return problem.path[1:2] in (("model",), ("engine",), ("parallelism",), ("replicas",))


def _gpu_problems(model: FileModel, gpu_flag: str | None) -> Iterator[Problem]:
    """Why the GPUs of a model are unknown."""
    if model.ray_type is None and gpu_flag is None:
        yield Problem(
            model.at,
            "names no accelerator, so its GPUs cannot be planned",
            "accelerator_type: H100 in the file (Ray's name), or --gpu H100-80GB; for CPUs accelerator_config: "
            "{kind: cpu}",
        )
    elif not _kinds(model, gpu_flag):
        yield Problem(
            (*model.at, "accelerator_type"),
            f"the memory of {model.ray_type} is unknown",
            "--gpu NAME (rayllm-ctl gpus)",
        )


def _require_used(file_models: Sequence[FileModel], gpu_flag: str | None) -> None:
    """Raise UsageError for a --gpu that no model uses."""
    if gpu_flag is None or not file_models:
        return
    name = gpus.canonical(gpu_flag)
    if not any(
        model.hardware == "gpu" and name in [gpu.name for gpu in _kinds(model, gpu_flag)] for model in file_models
    ):
        types = ", ".join(dict.fromkeys(model.ray_type or "CPUs" for model in file_models))
        raise UsageError(
            f"no model uses --gpu {name}: the file has {types}",
            hint="remove --gpu, or change accelerator_type in the file",
        )


def _kinds(model: FileModel, gpu_flag: str | None) -> list[GPU]:
    """The GPUs that a model may run on, smallest memory first: the matches of Ray's name in the file, of which --gpu
    chooses one; only --gpu if the file has no name, or an unknown one."""
    catalog = gpus.load_gpus()
    chosen = catalog[gpus.canonical(gpu_flag)] if gpu_flag else None
    sizes = {"A100-40G": "A100-40GB", "A100-80G": "A100-80GB"}
    named = model.ray_type
    if named in sizes:
        found = [catalog[sizes[named]]]
    else:
        found = [gpu for gpu in catalog.values() if named is not None and gpu.ray_accelerator_type == named]
    if chosen is not None and (not found or chosen in found):
        return [chosen]
    return sorted(found, key=lambda gpu: gpu.memory_bytes)


def chosen_gpu(model: FileModel, gpu_flag: str | None) -> GPU | None:
    """The GPU that a spec of the model names: the one that file and --gpu mean, if it is one; None leaves it open."""
    kinds = _kinds(model, gpu_flag) if model.hardware == "gpu" else []
    return kinds[0] if len(kinds) == 1 else None


def _with_gpu(model: FileModel, gpu: str | None) -> LLMService:
    accelerator = Accelerator(model.service.accelerator.kind, gpu)
    return replace(model.service, accelerator=accelerator)


def _planned(
    model: FileModel, base: LLMService, runtime: Runtime, facts: FactSources, place: ModelPlace, apart: bool,
    accept_risk: bool,
) -> PlannedModel:  # fmt: skip
    try:
        plan = _plan(model, base, runtime, facts, apart)
        require_runnable(plan, accept_risk=accept_risk)
    except UserError as error:
        hints = tuple(_in_file(model, hint) for hint in error.hints)
        raise type(error)(place(Problem(model.at, _in_file(model, error.message))), hint=hints) from error
    problems = list(placement_problems(model, plan.pods.gpus_per_worker if plan.pods else 0))
    if problems:
        raise UsageError(
            "\n".join(map(place, problems)), hint=tuple(problem.hint for problem in problems if problem.hint)
        )
    return PlannedModel(model, plan)


def _plan(model: FileModel, base: LLMService, runtime: Runtime, facts: FactSources, apart: bool) -> Plan:
    """The plan of a model: for the first GPU of its accelerator type on which it runs.

    The GPUs are in the order of their memory, so it runs on the larger ones as well, and its pods may run there.
    """
    if model.hardware != "gpu":
        return _plan_on(model, None, runtime, facts, apart, ())
    kinds = _kinds(model, base.accelerator.gpu)
    plans: dict[str, Plan] = {}
    for index, gpu in enumerate(kinds):
        plan = plans[gpu.name] = _plan_on(model, gpu.name, runtime, facts, apart, kinds[index:])
        if plan.runs:
            break
    else:
        # The reasons it does not run refer to the GPU that the name usually means.
        plan = plans.get(gpus.canonical(model.ray_type), plan) if len(kinds) > 1 and model.ray_type else plan
    if len(kinds) > 1 and plan.gpu is not None:
        names = " or ".join(gpu.name for gpu in kinds)
        note = f"{model.ray_type} may be {names}: planned for {plan.gpu.name}, and others with as much memory"
        plan = replace(plan, notes=(*plan.notes, note))
    return plan


def _plan_on(
    model: FileModel, gpu: str | None, runtime: Runtime, facts: FactSources, apart: bool, kinds: Sequence[GPU]
) -> Plan:
    service = _with_gpu(model, gpu)
    if apart and not bundles(model):
        resources = {**service.scheduling.ray_resources, model_resource(model.name): 1.0}
        service = replace(service, scheduling=replace(service.scheduling, ray_resources=resources))
    # A reference is not a token: without --hf-token-secret the pods have no variable that it could be the value of.
    given = any(name in TOKEN_VARIABLES and not is_reference(value) for name, value in model.env.items())
    has_token = model.is_of_a_bucket or model.engine_token or given
    plan = warned(service, plan_one(service, runtime, facts, False, True), needs_token=not has_token)
    if plan.gpu is not None and len(kinds) > 1:
        plan = replace(plan, gpu=replace(plan.gpu, node_labels=node_labels(kinds)))
    return deployed(plan, service, runtime)


def _in_file(model: FileModel, text: str) -> str:
    """A message of a plan, with fields of the file instead of flags that do not apply."""
    return _FLAG.sub(lambda flag: _as_field(model, flag), text.replace(f" {PERMITTED}", ""))


def _as_field(model: FileModel, flag: re.Match[str]) -> str:
    """A flag of a suggestion as a field of the file."""
    field = flag[0].rstrip()
    if flag[1] in _FIELDS:
        field = f"{_FIELDS[flag[1]]}: {flag[2]}"
    elif flag[1] == "--engine-arg":
        field = f"engine_kwargs.{flag[2].replace('=', ': ', 1)}"
    if flag[1] == "--gpu" and model.ray_type is not None:
        catalog = gpus.load_gpus()
        kind = catalog[flag[2]].ray_accelerator_type if flag[2] in catalog else None
        field = f"accelerator_type: {kind}" if kind else field
    return f"{field}, " if flag[3] else field


def workers(
    planned: Sequence[PlannedModel], config: Mapping[str, object], base: LLMService, shutdown: int
) -> tuple[ServedModels, tuple[Unit, ...]]:
    """The worker groups of models, and the parts of their ingresses that do not fit there.

    shutdown: seconds that replicas have to finish their requests.
    """
    groups: list[WorkerGroup] = []
    rest: list[Unit] = []
    for planned_model in planned:
        first = not any(other.model.application == planned_model.model.application for other in planned[: len(groups)])
        group, ingress = _workers(planned_model, config, base, shutdown, alone=len(planned) == 1, with_ingress=first)
        groups.append(group)
        rest += ingress
    explanation = [line for model, group in zip(planned, groups, strict=True) for line in _explained(model, group)]
    ids = [str(planned_model.model.entry.model_id) for planned_model in planned]
    return served_models(ids, [model.plan for model in planned], groups, explanation), tuple(rest)


def _workers(
    planned: PlannedModel,
    config: Mapping[str, object],
    base: LLMService,
    shutdown: int,
    *,
    alone: bool,
    with_ingress: bool,
) -> tuple[WorkerGroup, list[Unit]]:
    model, plan = planned.model, planned.plan
    assert plan.deployment is not None
    assert plan.pods is not None
    (group,) = plan.deployment.worker_groups
    pods = plan.pods.workers_per_replica
    actor, each = actor_resources(model.options), bundles(model)
    own = actor.get("CPU", 0.0) + sum(bundle.get("CPU", 0.0) for bundle in each) / pods
    if model.hardware == "cpu" and not each:
        own += (model.service.parallelism.tensor or 1) * (model.service.parallelism.pipeline or 1)
    units, shared = [], 0.0
    if with_ingress:
        unit = _ingress(model, config)
        shared = unit.resources.get("CPU", 0.0) * math.ceil(unit.high / group.max_workers)
        capacity = max(float(group.cpus), parse_quantity(group.pod_cpu))
        if own + shared > capacity and unit.high > group.max_workers:
            units, shared = [unit], 0.0
    asked = [actor, *each]
    custom = {
        name: math.ceil(sum(amounts.get(name, 0.0) for amounts in asked) / pods)
        for amounts in asked
        for name in amounts
        if name not in ("CPU", "GPU", "memory") and not name.startswith("accelerator_type:")
    }
    surge = math.ceil(group.max_workers / pods * _percent(model.options.get("max_surge_percent"))) * pods
    name = model.service.accelerator.kind if alone else model.name
    return model_workers(base, group, name, shutdown, math.ceil(own + shared), custom, surge), units


def _percent(value: object) -> float:
    return float(value) / 100 if isinstance(value, (int, float)) else 0.0


def _ingress(model: FileModel, config: Mapping[str, object]) -> Unit:
    """The ingress in front of the models of an application."""
    application = next(
        application
        for application in _list(config)
        if isinstance(application, Mapping) and application.get("name", "default") == model.application
    )
    options = deployment_options(application)[INGRESS_DEPLOYMENT]
    low, high = replica_bounds(options)
    name = f"{model.application}/{INGRESS_DEPLOYMENT}"
    return Unit(name, model.at[:2], actor_resources(options), None, {}, low, high)


def _explained(planned: PlannedModel, group: WorkerGroup) -> Iterator[str]:
    """A note on the workers of a model, and the use of their memory."""
    model, plan = planned.model, planned.plan
    assert plan.pods is not None
    assert plan.parallelism is not None
    shape, pods = plan.parallelism, plan.pods
    count = str(group.min_workers)
    count += f"..{group.max_workers}" if group.max_workers != group.min_workers else ""
    size = f"{group.pod_cpu} CPU, " + "".join(f"{amount} {name}, " for name, amount in group.extended_resources.items())
    replicas = (
        str(shape.replicas) if shape.replicas == shape.max_replicas else f"{shape.replicas}..{shape.max_replicas}"
    )
    count_of = shape.gpus_per_replica
    hardware = f"{count_of} {plan.gpu.name}" if plan.gpu and pods.gpus_per_worker else f"on {count_of} CPU"
    hardware += f" in {pods.workers_per_replica} pods" if pods.workers_per_replica > 1 else ""
    yield (
        f"group {group.name}: {count} workers of {size}{group.pod_memory} for {model.application}/"
        f"{model.entry.deployment} ×{replicas} (TP {shape.tensor} × PP {shape.pipeline}: {hardware})"
    )
    if plan.memory is not None and plan.engine is not None:
        memory = plan.memory
        yield (
            f"  {plan.verdict}: weights {memory.weights_bytes / GIB:.1f} GiB and KV cache "
            f"{memory.kv_cache_bytes.typical / GIB:.1f} GiB per GPU, context {plan.engine.max_model_len:,} tokens"
        )
    yield from (f"  {_in_file(model, reason.message)}" for reason in plan.reasons if plan.verdict == "risky")
    yield from (f"  {_in_file(model, note)}" for note in (*plan.warnings, *plan.notes))
