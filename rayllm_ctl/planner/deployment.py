"""What the manifests of a plan that runs say: the Serve application, the Ray cluster, and how they scale.

Read against Ray 2.60 (ray/llm/_internal/serve/core) and KubeRay 1.6.2 (ray-operator/controllers/ray/common/pod.go).
Whatever stands in a RayService's rayClusterConfig counts for the hash by which KubeRay decides whether a change needs a
second cluster (only replica bounds and tolerations do not), so nothing there may depend on what changes often.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

from rayllm_ctl.model import kuberay
from rayllm_ctl.model.deployment import Autoscaler, Backend, Deployment, PodTemplate, Probe, Runtime, WorkerGroup
from rayllm_ctl.model.plan import GPUChoice, ParallelismPlan, Plan, PodSizes
from rayllm_ctl.model.quantities import parse_quantity
from rayllm_ctl.model.rayoptions import RayOptions
from rayllm_ctl.model.serveoptions import ServeProxies, proxies_of
from rayllm_ctl.model.service import LLMService
from rayllm_ctl.planner.podtemplates import head_template, worker_template
from rayllm_ctl.planner.serve import INGRESS_CPUS, serve_application, serve_options
from rayllm_ctl.planner.surroundings import entrance, network_rules, scraping, surroundings_notes

AGENT_PORT = 52365
"""Ray's dashboard agent, which knows how the raylet of its node is."""

AUTOSCALER = Autoscaler(cpu="100m", memory="512Mi", memory_limit="1Gi", idle_timeout=60)
"""KubeRay's default limits it to half a core, with which autoscaler v2 stalls (kuberay#3794); without a CPU limit a
small request is enough. The idle timeout is Ray's default, written so that it does not change with Ray's version."""


def readiness(proxies: ServeProxies) -> Probe:
    """The probe of workers, with KubeRay's own figures.

    KubeRay's probe runs `wget` in the container, which not every image has (kuberay#2063); an HTTP probe asks the Serve
    proxy for the same answer. A worker without a Serve replica has no proxy and is not ready: that is by design. Where
    no worker has a proxy, Ray's agent is asked, as KubeRay does for a RayCluster (requires Ray 2.53).
    """
    path, port = ("/-/healthz", proxies.http_port) if proxies.on_workers else ("/api/healthz", AGENT_PORT)
    https = proxies.https and proxies.on_workers
    return Probe(path, port, https, initial_delay=10, period=5, timeout=5, failure_threshold=2)


def with_deployment(plan: Plan, service: LLMService, runtime: Runtime) -> Plan:
    """`plan` with its deployment, where it runs; `runtime` as the catalog resolves it for NVIDIA GPUs."""
    engine, parallelism, pods = plan.engine, plan.parallelism, plan.pods
    if not plan.runs or engine is None or parallelism is None or pods is None:
        return plan
    gpu = plan.gpu if service.accelerator.kind == "gpu" else None
    held = plan.throughput.concurrency_at_load.low if plan.throughput else None
    proxies = proxies_of(service.serve)
    deployment = Deployment(
        name=service.name,
        namespace=service.namespace,
        runtime=_runtime(runtime, service, gpu),
        serve=serve_application(service, parallelism, engine, pods, gpu, held),
        head=head_template(service, plan.startup),
        worker=_worker(
            service, parallelism, pods, gpu, worker_template(service, plan.startup, gpu, service.scheduling)
        ),
        autoscaler=autoscaler(service.ray),
        ray=service.ray,
        upgrade=service.upgrade,
        pod_options=service.pods,
        pod_security=service.security.pod_security,
        volumes=service.storage.volumes,
        proxies=proxies,
        serve_options=serve_options(service.serve),
        exposure=entrance(service.exposure),
        backend=Backend(kuberay.serve_service(service.name), proxies.http_port),
        network=network_rules(service.security),
        pod_disruption_budget=service.availability.pod_disruption_budget,
        pod_monitor=scraping(service.monitoring.pod_monitor),
        service_monitor=scraping(service.monitoring.service_monitor),
        patches=service.patches,
    )
    notes = (*plan.notes, *surroundings_notes(deployment))
    return replace(plan, deployment=deployment, notes=notes)


def autoscaler(ray: RayOptions) -> Autoscaler:
    """The autoscaler with what the user says of it."""
    return AUTOSCALER if ray.idle_timeout is None else replace(AUTOSCALER, idle_timeout=int(ray.idle_timeout))


def _runtime(runtime: Runtime, service: LLMService, gpu: GPUChoice | None) -> Runtime:
    """`runtime` without the public image, where it does not run: on CPUs and on other vendors' GPUs."""
    if service.engine.image is not None or (gpu is not None and gpu.resource == "nvidia.com/gpu"):
        return runtime
    where = gpu.name if gpu else "CPUs"
    return replace(runtime, image=None, image_note=f"there is no public image with Ray and vLLM for {where}")


def _worker(
    service: LLMService, parallelism: ParallelismPlan, pods: PodSizes, gpu: GPUChoice | None, pod: PodTemplate
) -> WorkerGroup:
    kind = gpu.ray_accelerator_type if gpu else None
    return WorkerGroup(
        name=service.accelerator.kind,
        min_workers=parallelism.replicas * pods.workers_per_replica,
        max_workers=max(1, parallelism.max_replicas) * pods.workers_per_replica,
        cpus=worker_cpus(parallelism, pods, gpu),
        pod_cpu=pods.worker_cpu,
        pod_memory=pods.worker_memory,
        extended_resources={gpu.resource: pods.gpus_per_worker} if gpu else {},
        # Ray finds the type on a running GPU node by itself. The autoscaler decides about workers that do not exist yet
        # and knows of them only what stands here: without it a scale-up is "infeasible".
        ray_resources=json.dumps({f"accelerator_type:{kind}": 1}) if kind else None,
        pod=pod,
        readiness=readiness(proxies_of(service.serve)),
    )


def worker_cpus(parallelism: ParallelismPlan, pods: PodSizes, gpu: GPUChoice | None) -> int:
    """The logical CPUs that a worker tells Ray of.

    They must hold a replica and an ingress replica, whatever the pod requests. On CPUs they must not hold two replicas,
    since the pod's memory is that of one; on GPUs the GPUs see to that, and what is left is free for Ray's own tasks.
    """
    processes = 0 if gpu else parallelism.gpus_per_replica
    needed = math.ceil(pods.engine_cpus + processes + INGRESS_CPUS)
    return max(needed, math.floor(parse_quantity(pods.worker_cpu))) if gpu else needed
