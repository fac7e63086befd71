"""What the manifests of a plan that runs say: the Serve application, the Ray cluster, and how they scale.

Read against Ray 2.60 (ray/llm/_internal/serve/core) and KubeRay 1.6.2 (ray-operator/controllers/ray/common/pod.go).
Whatever stands in a RayService's rayClusterConfig counts for the hash by which KubeRay decides whether a change needs a
second cluster (only replica bounds and tolerations do not), so nothing there may depend on what changes often.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.quantities import canonical_quantity, parse_quantity
from rayllm_ctl.model.plan.deployment import Autoscaler, Deployment, Probe, Runtime, WorkerGroup
from rayllm_ctl.model.plan.plan import EngineSettings, GPUChoice, ParallelismPlan, Plan, PodSizes, StartupPlan
from rayllm_ctl.model.plan.pods import PodTemplate
from rayllm_ctl.model.plan.surroundings import Backend
from rayllm_ctl.model.spec.operations import PodDisruptionBudget
from rayllm_ctl.model.spec.ray_options import INCREMENTAL, RayOptions, Upgrade
from rayllm_ctl.model.spec.serve_options import ServeProxies, proxies_of
from rayllm_ctl.model.spec.service import ExtraWorkers, LLMService, Scheduling
from rayllm_ctl.model.spec.several_models import each_model, has_ingress, short_name
from rayllm_ctl.planner.deployment.disruptions import budget, drained, excludes_the_head, graceful_shutdown, spread_pods
from rayllm_ctl.planner.deployment.gateway import gateway_config, gateway_notes, redis_server, with_gateway
from rayllm_ctl.planner.deployment.images import image_notes, image_problem, image_warnings, public_image_lacks
from rayllm_ctl.planner.deployment.ingress import ingress_application, ingress_workers
from rayllm_ctl.planner.deployment.model_files import reads_hub
from rayllm_ctl.planner.deployment.placed_files import all_storage, files_of_ingress, place_files
from rayllm_ctl.planner.deployment.pod_templates import head_template, worker_template
from rayllm_ctl.planner.deployment.pods import counted_workers
from rayllm_ctl.planner.deployment.ray_token import KnownCluster, decide_token, with_token
from rayllm_ctl.planner.deployment.serve import INGRESS_CPUS, serve_application, serve_options
from rayllm_ctl.planner.deployment.surroundings import entrance, network_rules, scraping, surroundings_notes
from rayllm_ctl.planner.engine.server import GRACE_SECONDS, READY, model_server, server_problem

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
    """`plan` with its deployment, where it runs, and what to know of that; runtime: as the catalog resolves it for
    NVIDIA GPUs."""
    plan = deployed(plan, service, runtime)
    if plan.deployment is None:
        return plan
    deployment = plan.deployment
    if has_ingress(service):
        deployment = behind_an_ingress(service, {short_name(service.model): plan})
    return with_notes(plan, service, deployment)


def with_notes(plan: Plan, service: LLMService, deployment: Deployment) -> Plan:
    """`plan` with its deployment, and what to know of that."""
    gpus = [one.gpu for one in (plan, *(plan.models or {}).values()) if one.gpu is not None]
    notes = (
        *plan.notes,
        *surroundings_notes(deployment),
        *gateway_notes(service),
        *image_notes(service, deployment),
        *(deployment.storage.notes if deployment.storage else ()),
    )
    warnings = (*plan.warnings, *image_warnings(deployment.runtime, gpus))
    return replace(plan, deployment=deployment, notes=notes, warnings=warnings)


def behind_an_ingress(service: LLMService, plans: Mapping[str, Plan]) -> Deployment:
    """The deployment of models that run, by their short names, with a Serve application each."""
    found = [plan.deployment for plan in plans.values() if plan.deployment is not None]
    served = [one.serve for one in found if one.serve is not None]
    startup = longest(plans.values())
    alone = _reading_all(service)
    ingress = ingress_application(served, graceful_shutdown(service))
    workers = with_gateway(ingress_workers(alone, ingress, startup, readiness(found[0].proxies)), service)
    files = files_of_ingress(each_model(service).values(), plans)
    workers = replace(workers, pod=files.on(workers.pod))
    groups = (
        drained(spread_pods(workers), graceful_shutdown(service)),
        *(group for one in found for group in one.worker_groups),
    )
    return replace(
        found[0],
        model_id=", ".join(one.model_id for one in found),
        serve=served[0] if len(found) == 1 else None,
        head=head_template(alone, startup),
        ingress=ingress,
        gateway=gateway_config(service, served),
        redis=redis_server(service),
        serving_code=service.engine.serving_code == "mounted",
        worker_groups=groups,
        pod_disruption_budget=service.availability.pod_disruption_budget or _budget_of(groups),
        head_serves=not excludes_the_head(found[0].proxies.on_workers, groups[0].min_workers),
        storage=all_storage(service, plans.values()),
    )


def _budget_of(groups: Iterable[WorkerGroup]) -> PodDisruptionBudget | None:
    """Of an ingress and models: one worker at a time, whichever it is."""
    fewest = [group.min_workers for group in groups]
    return budget(max(fewest), sum(fewest), 1)


def _reading_all(service: LLMService) -> LLMService:
    """The first model alone, with the token for any: head and ingress read the configurations of all models."""
    first, *others = each_model(service).values()
    tokens = (one.model.token_secret for one in (first, *others) if reads_hub(one))
    token = next((one for one in tokens if one is not None), None)
    return replace(first, model=replace(first.model, token_secret=token))


def longest(plans: Iterable[Plan]) -> StartupPlan | None:
    """The start-up of the model that takes longest: all of them start at once."""
    found = (one.startup for one in plans if one.startup)
    return max(found, key=lambda one: (one.wait_seconds, one.deploy_wait_seconds), default=None)


def deployed(plan: Plan, service: LLMService, runtime: Runtime, short_name: str | None = None) -> Plan:
    """`plan` with the deployment of its model alone, where it runs. short_name: of one of several models."""
    if not plan.runs:
        return plan
    gpu = plan.gpu if service.accelerator.kind == "gpu" else None
    placed = place_files(plan, service, gpu, short_name)
    plan, service = placed.plan, placed.service
    engine, parallelism, pods = plan.engine or plan.transformers, plan.parallelism, plan.pods
    if engine is None or parallelism is None or pods is None:
        return plan
    by_serve = service.mode == "rayservice"
    runtime = _runtime(runtime, service, gpu)
    problem = image_problem(service, runtime, gpu)
    if isinstance(engine, EngineSettings) and not by_serve:
        problem = server_problem(parallelism, engine, pods)
    if problem is not None:
        return replace(plan, verdict="invalid", reasons=(problem,), suggestions=())
    held = plan.throughput.concurrency_at_load.low if plan.throughput else None
    workers = _worker_groups(service, plan, parallelism, pods, gpu)
    if isinstance(engine, EngineSettings) and not by_serve:
        workers = _server_groups(workers[0], service, plan, parallelism, engine, pods)
    if by_serve:
        workers = tuple(drained(group, graceful_shutdown(service)) for group in workers)
    if pods.workers_per_replica == 1:
        workers = tuple(map(spread_pods, workers))
    workers = tuple(map(placed.on, workers))
    proxies = proxies_of(service.serve)
    in_front = kuberay.serve_service(service.name) if by_serve else kuberay.openai_service(service.name)
    deployment = Deployment(
        name=service.name,
        namespace=service.namespace,
        runtime=runtime,
        mode=service.mode,
        model_id=service.model.id,
        serve=serve_application(service, parallelism, engine, pods, gpu, held, placed.files.tokenizer)
        if by_serve
        else None,
        head=head_template(service, plan.startup),
        worker_groups=workers,
        autoscaler=autoscaler(service.ray) if by_serve else None,
        ray=with_token(service.ray, decide_token(service, KnownCluster())),
        upgrade=_upgrade(service.upgrade),
        pod_options=service.pods,
        pod_security=service.security.pod_security,
        volumes=service.storage.volumes,
        proxies=proxies,
        serve_options=serve_options(service.serve),
        exposure=entrance(service.exposure),
        backend=Backend(in_front, proxies.http_port),
        network=network_rules(service.security),
        pod_disruption_budget=service.availability.pod_disruption_budget
        or budget(parallelism.replicas, parallelism.replicas * pods.workers_per_replica, pods.workers_per_replica),
        head_serves=not (by_serve and excludes_the_head(proxies.on_workers, workers[0].min_workers)),
        pod_monitor=scraping(service.monitoring.pod_monitor),
        service_monitor=scraping(service.monitoring.service_monitor),
        patches=service.patches,
        storage=placed.storage,
    )
    return replace(plan, deployment=deployment)


def autoscaler(ray: RayOptions) -> Autoscaler:
    """The autoscaler with what the user says of it."""
    return AUTOSCALER if ray.idle_timeout is None else replace(AUTOSCALER, idle_timeout=int(ray.idle_timeout))


def _upgrade(upgrade: Upgrade) -> Upgrade:
    """With KubeRay's default of the surge written out: the API server adds it, and it would be a change each time."""
    if upgrade.strategy != INCREMENTAL or upgrade.max_surge_percent is not None:
        return upgrade
    return replace(upgrade, max_surge_percent=100)


def _runtime(runtime: Runtime, service: LLMService, gpu: GPUChoice | None) -> Runtime:
    """`runtime` without the public image, where it does not run."""
    if service.engine.image is not None:
        return runtime
    if runtime.image is not None and (lacks := public_image_lacks(service, gpu, runtime.image)):
        return replace(runtime, image=None, image_note=lacks)
    return runtime


def _worker_groups(
    service: LLMService, plan: Plan, parallelism: ParallelismPlan, pods: PodSizes, gpu: GPUChoice | None
) -> tuple[WorkerGroup, ...]:
    """The workers for the replicas, and the further groups that the user asks for, which are like them in the rest.

    Those come last, in the order of the spec: KubeRay adds groups at the end to a running cluster.
    """
    worker = _worker(service, parallelism, pods, gpu, worker_template(service, plan.startup, gpu, service.scheduling))
    return worker, *(_further(group, worker, service, plan, parallelism, pods, gpu) for group in service.worker_groups)


def _further(
    group: ExtraWorkers,
    worker: WorkerGroup,
    service: LLMService,
    plan: Plan,
    parallelism: ParallelismPlan,
    pods: PodSizes,
    gpu: GPUChoice | None,
) -> WorkerGroup:
    size = replace(
        pods,
        worker_cpu=canonical_quantity(group.resources.cpu or pods.worker_cpu),
        worker_memory=canonical_quantity(group.resources.memory or pods.worker_memory),
    )
    no_gpus = group.gpus == 0
    own = max(1, math.floor(parse_quantity(size.worker_cpu)))
    its_gpu = None if no_gpus else gpu
    return replace(
        worker,
        name=group.name,
        min_workers=group.min,
        max_workers=group.max,
        pod_cpu=size.worker_cpu,
        pod_memory=size.worker_memory,
        cpus=own if no_gpus else worker_cpus(service, parallelism, size, gpu),
        extended_resources={its_gpu.resource: group.gpus or pods.gpus_per_worker} if its_gpu else {},
        ray_resources=_offered(its_gpu, group.ray_resources),
        pod=worker_template(service, plan.startup, its_gpu, Scheduling(group.node_selector, group.tolerations)),
        idle_timeout=None if group.idle_timeout is None else int(group.idle_timeout),
    )


def _worker(
    service: LLMService, parallelism: ParallelismPlan, pods: PodSizes, gpu: GPUChoice | None, pod: PodTemplate
) -> WorkerGroup:
    processes = 1 if service.engine.kind == "transformers" else parallelism.gpus_per_replica // pods.workers_per_replica
    demanded = {name: math.ceil(amount * processes) for name, amount in service.scheduling.ray_resources.items()}
    return WorkerGroup(
        name=service.accelerator.kind,
        min_workers=parallelism.replicas * pods.workers_per_replica,
        max_workers=counted_workers(
            max(1, parallelism.max_replicas), pods.workers_per_replica, "spec.replicas.max (--max-replicas)"
        ),
        cpus=worker_cpus(service, parallelism, pods, gpu),
        pod_cpu=pods.worker_cpu,
        pod_memory=pods.worker_memory,
        extended_resources={gpu.resource: pods.gpus_per_worker} if gpu else {},
        ray_resources=_offered(gpu, demanded),
        pod=pod,
        readiness=readiness(proxies_of(service.serve)),
    )


def _server_groups(
    worker: WorkerGroup,
    service: LLMService,
    plan: Plan,
    parallelism: ParallelismPlan,
    engine: EngineSettings,
    pods: PodSizes,
) -> tuple[WorkerGroup, ...]:
    """The pods with vLLM's server, one for each replica, and those that replicas have beyond that one.

    Nothing scales them, so nobody has to be told of their resources beforehand.
    """
    replicas, further = parallelism.replicas, parallelism.replicas * (pods.workers_per_replica - 1)
    fixed = replace(worker, ray_resources=None)
    servers = replace(
        fixed,
        # KubeRay then leaves the command as it is, and hands over its own in a variable.
        pod=replace(
            fixed.pod,
            annotations={**fixed.pod.annotations, kuberay.OVERWRITE_COMMAND: "true"},
            grace_period=GRACE_SECONDS,
        ),
        name=kuberay.SERVERS,
        min_workers=replicas,
        max_workers=replicas,
        readiness=READY,
        server=model_server(service, parallelism, engine, plan.startup),
    )
    members = replace(fixed, name=kuberay.MEMBERS, min_workers=further, max_workers=further, readiness=None)
    return (servers, members) if further else (servers,)


def _offered(gpu: GPUChoice | None, custom: Mapping[str, int]) -> str | None:
    """The custom resources of a worker, as JSON.

    Ray finds the type of the GPU on a running node by itself. The autoscaler decides about workers that do not exist
    yet and knows of them only what stands here: without it a scale-up is "infeasible".
    """
    kind = gpu.ray_accelerator_type if gpu else None
    offered = {**({f"accelerator_type:{kind}": 1} if kind else {}), **dict(sorted(custom.items()))}
    return json.dumps(offered) if offered else None


def worker_cpus(service: LLMService, parallelism: ParallelismPlan, pods: PodSizes, gpu: GPUChoice | None) -> int:
    """The logical CPUs that a worker tells Ray of.

    They must hold a replica and an ingress replica, whatever the pod requests. On CPUs they must not hold two replicas,
    since the pod's memory is that of one; on GPUs the GPUs see to that, and what is left is free for Ray's own tasks.
    A replica of the Transformers engine on CPUs takes all of them: its ingress is never there.
    """
    if gpu is None and service.engine.kind == "transformers":
        return math.ceil(pods.engine_cpus)
    processes = 0 if gpu else parallelism.gpus_per_replica
    needed = math.ceil(pods.engine_cpus + processes + INGRESS_CPUS)
    return max(needed, math.floor(parse_quantity(pods.worker_cpu))) if gpu else needed
