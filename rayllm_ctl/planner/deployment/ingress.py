"""The ingress as a Serve application of its own, in front of models that have an application each.

Serve restarts all replicas of an application whose args change, and takes a changed user_config up in place (Ray 2.60,
ray/serve/_private/deploy_utils.py and version.py). So what may change of models and gateway stands in the user_config
of the ingress, and a change of one model's application reaches neither the ingress nor another model.

The ingress has workers of its own: on a model's workers it would hold their GPUs while that model is scaled to zero,
and end with them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from rayllm_ctl.model.kube.quantities import canonical_quantity
from rayllm_ctl.model.plan.deployment import Autoscaling, IngressApplication, Probe, ServeApplication, WorkerGroup
from rayllm_ctl.model.plan.plan import StartupPlan
from rayllm_ctl.model.spec.service import LLMService, Scheduling
from rayllm_ctl.planner.deployment.pod_templates import worker_template
from rayllm_ctl.planner.deployment.serve import (
    DOWNSCALE_DELAY_SECONDS,
    LOOK_BACK_SECONDS,
    UPSCALE_DELAY_SECONDS,
)

GROUP = "ingress"
"""The worker group of the ingress."""

RESOURCE = "rayllm-ingress"

_CPUS = 1
_TARGET = 100
"""Ongoing requests of a replica of the ingress: at 30 tokens a second each, it passes 3000 on."""

_FEWEST, _MOST = 2, 8
"""Replicas, each on its own worker: the loss of one is not an outage. Services on CPUs, for small models and tests,
begin with one."""

_POD_CPU, _POD_MEMORY = "500m", "4Gi"
"""Ray's processes on the node, Serve's proxy, and one replica of the ingress, which imports vLLM's request types."""


def ingress_application(models: Sequence[ServeApplication], graceful_shutdown_timeout: int) -> IngressApplication:
    """The ingress of `models`, which scales with its own load.

    Nothing of it follows from how many models and replicas there are: less of them would then take away workers of the
    ingress, with the requests that run there.
    """
    scaling = Autoscaling(
        min_replicas=1 if models[0].accelerator_kind == "cpu" else _FEWEST,
        max_replicas=_MOST,
        target_ongoing_requests=_TARGET,
        look_back_period=LOOK_BACK_SECONDS,
        upscale_delay=UPSCALE_DELAY_SECONDS,
        downscale_delay=DOWNSCALE_DELAY_SECONDS,
        initial_replicas=None,
        downscale_to_zero_delay=None,
        metrics_interval=None,
        upscaling_factor=None,
        downscaling_factor=None,
        aggregation_function=None,
    )
    return IngressApplication(_CPUS, RESOURCE, scaling, graceful_shutdown_timeout)


def ingress_workers(
    service: LLMService, ingress: IngressApplication, startup: StartupPlan | None, readiness: Probe
) -> WorkerGroup:
    """The workers of the ingress, one for each of its replicas. Its nodes need no GPU."""
    scheduling, size = service.scheduling, service.resources.ingress
    selector = {} if service.accelerator.kind == "gpu" else scheduling.node_selector
    return WorkerGroup(
        name=GROUP,
        min_workers=ingress.autoscaling.min_replicas,
        max_workers=ingress.autoscaling.max_replicas,
        cpus=_CPUS,
        pod_cpu=canonical_quantity(size.cpu or _POD_CPU),
        pod_memory=canonical_quantity(size.memory or _POD_MEMORY),
        extended_resources={},
        ray_resources=json.dumps({ingress.resource: 1}),
        pod=worker_template(service, startup, None, Scheduling(selector, scheduling.tolerations)),
        readiness=readiness,
    )
