"""Render one service, whatever it was described by: a model, or a Ray Serve configuration file."""

from __future__ import annotations

from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.pod_contexts import lost
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.render.manifests import manifests
from rayllm_ctl.workflows.render.ray_token import asks_by_default, lacking, plan_without_token, unsaid
from rayllm_ctl.workflows.render.types import Rendering, RenderOptions, ServeFile


def rendering(source: LLMService | ServeFile, options: RenderOptions) -> Rendering:
    """Plan and render `source`. Raises UserError where it cannot run or is not valid."""
    if isinstance(source, ServeFile):
        from rayllm_ctl.workflows.render.serve_config import prepare_applications

        found = prepare_applications(source, options)
        service = source.service
        notes = (*found.notes, *found.explanation)
        token = asks_by_default(service, found.manifests)
        return Rendering(service.name, service.namespace, found.manifests, notes, None, token, found.startup)
    plan = make_plan(source, options.facts)
    return rendering_of(source, plan, options)


def rendering_of(source: LLMService, plan: Plan, options: RenderOptions) -> Rendering:
    """Render `source`, whose plan is known. Raises UserError where it cannot run or is not valid."""
    lacks = lacking(options.kuberay) if unsaid(source) else ""
    if lacks:
        plan = plan_without_token(plan)
    rendered = manifests(
        plan, accept_risk=options.accept_risk, template_dir=options.template_dir, kuberay=options.kuberay
    )  # fmt: skip
    loss = lost(source.security.pod_security)
    notes = [f"warning: {loss}"] if loss else []
    notes += plan.warnings
    notes += [f"token authentication is {lacks}"] if lacks else []
    token = asks_by_default(source, rendered)
    return Rendering(source.name, source.namespace, tuple(rendered), tuple(notes), plan, token)
