"""From a plan to manifests; rejects a plan that cannot run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rayllm_ctl.model.kube.kuberay_versions import DEFAULT
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.render import render
from rayllm_ctl.render.podparts import check_pod_security
from rayllm_ctl.workflows.plan.verdict import require_runnable
from rayllm_ctl.workflows.render.check import check_manifests


def manifests(
    plan: Plan, *, accept_risk: bool = False, template_dir: Path | None = None, kuberay: str = DEFAULT
) -> list[dict[str, Any]]:
    """The manifests of `plan`, valid for a version of KubeRay (one of model.kube.kuberay_versions.VERSIONS).

    template_dir: a folder of the user's own templates.

    Raises UserError with the plan's reasons when it does not fit, RiskyPlanError when it is risky without accept_risk,
    UsageError when no image is known for it or a patch cannot be applied.
    """
    require_runnable(plan, accept_risk=accept_risk)
    rendered = render(plan, template_dir)
    check_manifests(rendered, plan, kuberay)
    assert plan.deployment is not None  # a plan that runs has one
    check_pod_security(rendered, plan.deployment.pod_security)
    return rendered
