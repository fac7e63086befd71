"""Render one service, described by a model or a Ray Serve configuration file."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.pod_contexts import lost
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.deployment.ray_token import (
    KnownCluster,
    TokenDecision,
    decide_token,
    depends_on_cluster,
    with_token,
)
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.render.controlled import notes_without_controller
from rayllm_ctl.workflows.render.manifests import manifests
from rayllm_ctl.workflows.render.types import Decided, Rendering, RenderOptions, ServeFile

if TYPE_CHECKING:
    from rayllm_ctl.workflows.render.serve_config import PlannedApplications


def rendering(source: LLMService | ServeFile, options: RenderOptions) -> Rendering:
    """Plan and render `source`. Raises UserError if it cannot run or is not valid."""
    if not isinstance(source, ServeFile):
        return rendering_of(source, make_plan(source, options.facts), options)
    from rayllm_ctl.workflows.render.serve_config import plan_applications

    planned = plan_applications(source, options)
    token = decide_token(source.service, KnownCluster(options.kuberay))
    return _rendered_applications(source.service, planned, options, token)


def rendering_of(source: LLMService, plan: Plan, options: RenderOptions) -> Rendering:
    """Render `source` with its plan. Raises UserError if it cannot run or is not valid."""
    return _rendered_plan(source, plan, options, decide_token(source, KnownCluster(options.kuberay)))


def _rendered_plan(source: LLMService, plan: Plan, options: RenderOptions, token: TokenDecision) -> Rendering:
    if plan.deployment is not None:
        ray = with_token(plan.deployment.ray, token)
        plan = replace(plan, deployment=replace(plan.deployment, ray=ray))
    rendered = manifests(
        plan, accept_risk=options.accept_risk, template_dir=options.template_dir, kuberay=options.kuberay
    )  # fmt: skip
    loss = lost(source.security.pod_security)
    notes = [f"warning: {loss}"] if loss else []
    notes += [*notes_without_controller(source), *plan.warnings]
    notes += [f"token authentication is {token.why_off}"] if token.why_off else []
    decided = None
    if depends_on_cluster(source):
        decided = Decided(source, token, partial(_rendered_plan, source, plan, options))
    return Rendering(source.name, source.namespace, tuple(rendered), tuple(notes), plan, decided=decided)


def _rendered_applications(
    service: LLMService, planned: PlannedApplications, options: RenderOptions, token: TokenDecision
) -> Rendering:
    from rayllm_ctl.workflows.render.serve_config import render_planned

    rendered = render_planned(planned, options, token)
    notes = (*planned.notes, *((f"token authentication is {token.why_off}",) if token.why_off else ()))
    notes += planned.applications.explanation
    decided = None
    if depends_on_cluster(service):
        decided = Decided(service, token, partial(_rendered_applications, service, planned, options))
    return Rendering(service.name, service.namespace, rendered, notes, None, planned.startup, decided)
