"""The deployment of a user's own Serve configuration: its text, the Ray cluster, and its code."""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.deployment import Autoscaler, CodeVolume, Runtime, WorkerGroup
from rayllm_ctl.model.plan.pods import PodTemplate
from rayllm_ctl.model.plan.surroundings import Entrance
from rayllm_ctl.model.spec.operations import PodDisruptionBudget
from rayllm_ctl.model.spec.ray_options import RayOptions, Upgrade
from rayllm_ctl.model.spec.security import PodSecurity
from rayllm_ctl.model.spec.serve_options import ServeProxies
from rayllm_ctl.model.spec.service import Volume


@dataclass(frozen=True)
class Applications:
    """A RayService for a Serve configuration. serve_config: its text. head_cpu, head_memory: quantities.

    explanation: the groups of workers and why, a line each, for the user. model_id: the models that Ray Serve LLM
    serves, if there are any; version: of vLLM where it does, else of Ray. head_serves: whether the head is among the
    addresses of the service.
    """

    name: str
    namespace: str | None
    runtime: Runtime
    serve_config: str
    proxies: ServeProxies
    head: PodTemplate
    head_cpu: str
    head_memory: str
    worker_groups: tuple[WorkerGroup, ...]
    autoscaler: Autoscaler
    ray: RayOptions
    upgrade: Upgrade
    pod_security: PodSecurity
    volumes: tuple[Volume, ...]
    exposure: Entrance
    code: CodeVolume | None
    explanation: tuple[str, ...]
    version: str
    model_id: str | None = None
    head_serves: bool = True
    pod_disruption_budget: PodDisruptionBudget | None = None
