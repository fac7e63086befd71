"""Render one service, whatever it was described by: a model, or a Ray Serve configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kuberayversions import DEFAULT
from rayllm_ctl.model.plan import Plan
from rayllm_ctl.model.service import LLMService
from rayllm_ctl.workflows.applications import ServeFile


@dataclass(frozen=True)
class RenderOptions:
    """model_config, offline, prices: where the facts of the plan come from, see workflows.plan. template_dir: the
    user's own templates, for models only. kuberay: the version that manifests are checked for.
    """

    model_config: Path | None = None
    offline: bool = False
    prices: Path | None = None
    accept_risk: bool = False
    template_dir: Path | None = None
    kuberay: str = DEFAULT


@dataclass(frozen=True)
class Rendering:
    """The manifests of a service, and what to know of them. `plan` is that of a model."""

    name: str
    namespace: str | None
    manifests: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    plan: Plan | None

    def check(self, kuberay: str) -> None:
        """Raise UserError where a version of KubeRay (one of model.kuberayversions.VERSIONS) rejects the manifests."""
        from rayllm_ctl.workflows.check import check, check_objects

        if self.plan is not None:
            check(self.manifests, self.plan, kuberay)
        else:
            check_objects(self.manifests, kuberay)


def rendering(source: LLMService | ServeFile, options: RenderOptions) -> Rendering:
    """Plan and render `source`. Raises UserError where it cannot run or is not valid."""
    if isinstance(source, ServeFile):
        from rayllm_ctl.workflows.applications import prepare

        found = prepare(source, options.kuberay)
        service = source.service
        return Rendering(service.name, service.namespace, found.manifests, (*found.notes, *found.explanation), None)
    from rayllm_ctl.model.podcontexts import lost
    from rayllm_ctl.workflows.plan import make_plan
    from rayllm_ctl.workflows.render import manifests

    plan = make_plan(
        source, model_config=options.model_config, offline=options.offline, prices=options.prices
    )  # fmt: skip
    rendered = manifests(
        plan, accept_risk=options.accept_risk, template_dir=options.template_dir, kuberay=options.kuberay
    )  # fmt: skip
    loss = lost(source.security.pod_security)
    notes = (f"warning: {loss}",) if loss else ()
    return Rendering(source.name, source.namespace, tuple(rendered), notes, plan)
