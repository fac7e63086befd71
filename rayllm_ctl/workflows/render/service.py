"""Render one service, whatever it was described by: a model, or a Ray Serve configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.kuberay_versions import DEFAULT
from rayllm_ctl.model.plan.plan import Plan, StartupPlan
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.pod_contexts import lost
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.render.check import check, check_objects
from rayllm_ctl.workflows.render.manifests import manifests
from rayllm_ctl.workflows.render.ray_token import asks_by_default, lacking, plan_without_token, unsaid
from rayllm_ctl.workflows.render.serve_config import ServeFile, prepare


@dataclass(frozen=True)
class RenderOptions:
    """facts: where those of the plan come from. template_dir: the
    user's own templates, for models only. kuberay: the version that manifests are checked for.
    """

    facts: FactSources = FactSources()
    accept_risk: bool = False
    template_dir: Path | None = None
    kuberay: str = DEFAULT


@dataclass(frozen=True)
class Rendering:
    """The manifests of a service, and what to know of them. `plan` is that of a model.

    token_by_default: Ray asks for a token, and the spec file says nothing of it. start: of the models of a Serve
    configuration file, which have no plan together.
    """

    name: str
    namespace: str | None
    manifests: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    plan: Plan | None
    token_by_default: bool = False
    start: StartupPlan | None = None

    @property
    def startup(self) -> StartupPlan | None:
        """How long it takes until the service is ready; None where that is not planned."""
        return self.plan.startup if self.plan is not None else self.start

    def check(self, kuberay: str) -> None:
        """Raise UserError where a version of KubeRay (one of model.kuberayversions.VERSIONS) rejects the manifests."""
        if self.plan is not None:
            check(self.manifests, self.plan, kuberay)
        else:
            check_objects(self.manifests, kuberay)


def rendering(source: LLMService | ServeFile, options: RenderOptions) -> Rendering:
    """Plan and render `source`. Raises UserError where it cannot run or is not valid."""
    if isinstance(source, ServeFile):
        found = prepare(source, options)
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
