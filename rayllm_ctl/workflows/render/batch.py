"""From a batch job to its plan and its manifests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from rayllm_ctl.catalog.engines import engine
from rayllm_ctl.catalog.releases import resolve_release
from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.names import did_you_mean
from rayllm_ctl.model.plan.batch import BatchPlan
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.batch_service import service_of
from rayllm_ctl.model.spec.checks.batch import ONE_ANSWER
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.gateway import CODE_PATH
from rayllm_ctl.model.spec.pod_contexts import lost
from rayllm_ctl.model.text.problems import Problem
from rayllm_ctl.planner.batch.batch import batch_plan
from rayllm_ctl.planner.deployment.pod_templates import on_python_path
from rayllm_ctl.planner.deployment.ray_token import KnownCluster, TokenDecision, decide_token, with_token
from rayllm_ctl.render.batch import render_batch
from rayllm_ctl.render.podparts import check_pod_security, check_raw_parts
from rayllm_ctl.render.prompts import template_problems
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.plan.verdict import require_runnable
from rayllm_ctl.workflows.render.check import check_objects
from rayllm_ctl.workflows.render.controlled import notes_without_controller
from rayllm_ctl.workflows.render.types import Rendering, RenderOptions


@dataclass(frozen=True)
class BatchRendering:
    """The manifests of a batch job, its plan, and notes.

    token: whether Ray requires one.
    """

    plan: BatchPlan
    manifests: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    token: TokenDecision


def make_batch_plan(
    batch: BatchJob,
    facts: FactSources,
    *,
    explain: bool = False,
    curve: bool = False,
) -> BatchPlan:
    """The plan of `batch`. Arguments and errors are those of workflows.plan.make_plan; UsageError for a template of
    the prompt that cannot be parsed, or cannot give a prompt for a row, as well."""
    problems = [*template_problems(batch), *_sampling_problems(batch)]
    if problems:
        hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
        raise UsageError(
            "\n".join(map(str, problems)),
            hint=(*hints, f"rayllm-ctl explain batchjob.{_section(problems)}    # the fields"),
        )
    service = service_of(batch)
    if batch.engine.serving_code == "mounted" and batch.cluster is None:
        service = on_python_path(service, CODE_PATH)
    plan = make_plan(service, facts, explain=explain, hand_sized=True, curve=curve)
    _check_adapters(batch, plan)
    return batch_plan(batch, _with_answer_limit(batch, plan))


def _with_answer_limit(batch: BatchJob, plan: Plan) -> Plan:
    """`plan` with what sampling.maxTokens means for it.

    It is the load, unless that is given, so it is what has to be changed. A limit above the context is never reached:
    vLLM ends the answer at the context (v1/core/sched/utils.py, 0.32).
    """
    limit = batch.sampling.max_tokens
    if limit is None:
        return plan
    if batch.load.output_tokens is None:
        reasons = (replace(one, suggestion=_as_limit(one.suggestion)) for one in plan.reasons)
        suggestions = (replace(one, flags=_as_limit(one.flags)) for one in plan.suggestions)
        plan = replace(plan, reasons=tuple(reasons), suggestions=tuple(suggestions))
    if plan.engine is not None and limit > plan.engine.max_model_len:
        warning = (
            f"the context of {plan.engine.max_model_len:,} tokens ends answers before the limit of {limit:,} "
            "(sampling.maxTokens)"
        )
        plan = replace(plan, warnings=(*plan.warnings, warning))
    return plan


def _as_limit(flags: str) -> str:
    return flags.replace("--output-tokens", "--max-tokens")


def _section(problems: Iterable[Problem]) -> str:
    """The section of the spec in which the first problem is."""
    return ".".join(map(str, next(iter(problems)).path[:2]))


def _sampling_problems(batch: BatchJob) -> Iterator[Problem]:
    """Raise UsageError for parameters that the planned vLLM does not support: each row would fail."""
    paths = {name: ("spec", "sampling", "args", name) for name in batch.sampling.args}
    paths |= {name: ("spec", "sampling", "columns", name) for name in batch.sampling.columns}
    paths = {name: path for name, path in paths.items() if name not in ONE_ANSWER}
    if not paths:
        return
    facts = engine(resolve_release(batch.engine).vllm_version)
    known = facts.sampling_parameters
    for name, path in paths.items():
        if name not in known:
            hint = did_you_mean(name, sorted(known))
            yield Problem(path, f'vLLM {facts.version} has no sampling parameter "{name}"', hint)


def _check_adapters(batch: BatchJob, plan: Plan) -> None:
    """Raise UsageError for adapters that only the first pod of an engine would have."""
    folder, pods = batch.model.lora_path, plan.pods
    if folder is not None and "://" in folder and pods is not None and pods.workers_per_replica > 1:
        raise UsageError(
            f"spec.model.loraPath: {folder} is copied into one pod, and each engine has {pods.workers_per_replica}",
            hint="a folder on a volume (--volume pvc:CLAIM:/adapters --lora-path /adapters), or a --tp and --pp that "
            "fit on one node",
        )


def batch_rendering(batch: BatchJob, options: RenderOptions) -> BatchRendering:
    """Plan and render `batch`. Raises UserError if it cannot run or is not valid for `options.kuberay`."""
    plan = make_batch_plan(batch, options.facts)
    require_runnable(plan.plan, accept_risk=options.accept_risk)
    made = batch_rendering_of(plan, options, decide_token(batch, KnownCluster(options.kuberay)))
    return replace(made, notes=(*notes_without_controller(batch), *made.notes))


def batch_rendering_of(plan: BatchPlan, options: RenderOptions, token: TokenDecision) -> BatchRendering:
    """Render a plan that runs. Raises UserError if it is not valid for `options.kuberay`."""
    assert plan.deployment is not None  # a plan that runs has one
    deployment = replace(plan.deployment, ray=with_token(plan.deployment.ray, token))
    check_raw_parts(deployment.pod_options, options.kuberay)
    manifests = tuple(render_batch(deployment))
    check_objects(manifests, options.kuberay)
    check_pod_security(manifests, deployment.pod_security)
    loss = lost(deployment.pod_security)
    notes = [f"warning: {loss}"] if loss else []
    notes += plan.plan.warnings
    notes += [f"token authentication is {token.why_off}"] if token.why_off else []
    return BatchRendering(plan, manifests, tuple(notes), token)


def batch_as_rendering(batch: BatchJob, options: RenderOptions) -> Rendering:
    """`batch` as a Rendering, the form of services."""
    made = batch_rendering(batch, options)
    return Rendering(batch.name, batch.namespace, made.manifests, made.notes, None)
