"""Inputs, options and results of rendering."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.kuberay_versions import DEFAULT
from rayllm_ctl.model.plan.plan import Plan, StartupPlan
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.planner.deployment.ray_token import KnownCluster, TokenDecision, decide_token
from rayllm_ctl.workflows.render.check import check_manifests, check_objects


@dataclass(frozen=True)
class ServeFile:
    """A Serve configuration to deploy: the file, the folder with its code, and flags for pods, image and scheduling."""

    file: Path
    code: Path | None
    service: LLMService


@dataclass(frozen=True, kw_only=True)
class RenderOptions:
    """facts: the sources of the plan's facts. template_dir: the
    user's own templates, for models only. kuberay: the version that manifests are checked for.
    """

    facts: FactSources = FactSources()
    accept_risk: bool = False
    template_dir: Path | None = None
    kuberay: str = DEFAULT


@dataclass(frozen=True)
class Decided:
    """A decision on Ray's token that depends on the cluster, made before the cluster was known.

    source: the spec. token: the decision. render: renders the same plan with another decision.
    """

    source: LLMService
    token: TokenDecision
    render: Callable[[TokenDecision], Rendering]


@dataclass(frozen=True)
class Rendering:
    """The manifests of a service, and notes. `plan`: the plan of a model.

    start: of the models of a Serve configuration file, which have no common plan. decided: a decision that depends on
    the cluster, if any.
    """

    name: str
    namespace: str | None
    manifests: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]
    plan: Plan | None
    start: StartupPlan | None = None
    decided: Decided | None = None

    @property
    def startup(self) -> StartupPlan | None:
        """The planned time until the service is ready; None if unknown."""
        return self.plan.startup if self.plan is not None else self.start

    def check(self, kuberay: str) -> None:
        """Raise UserError if a version of KubeRay (one of `kuberay_versions.VERSIONS`) rejects the manifests."""
        if self.plan is not None:
            check_manifests(self.manifests, self.plan, kuberay)
        else:
            check_objects(self.manifests, kuberay)

    def for_cluster(self, cluster: KnownCluster) -> tuple[Rendering, str]:
        """The rendering for a known cluster, and why Ray does not require a token there, if that changed.

        Renders again only if the decision changed. Raises UserError as the first rendering does.
        """
        if self.decided is None:
            return self, ""
        token = decide_token(self.decided.source, cluster)
        if token == self.decided.token:
            return self, ""
        again = self.decided.render(token)
        return again, token.why_off if again.manifests != self.manifests else ""
