"""From the plan of one engine to that of a batch job: how many rows at a time, which workers, how long, how much.

Read against Ray 2.60 (ray/llm/_internal/batch): the stages around the engine (rendering, chat template, tokenizing)
are tasks and actors of one logical CPU each, and a replica of the engine is one actor.
"""

from __future__ import annotations

import math
from dataclasses import replace

from rayllm_ctl.model.kube.labels import BATCH, SERVICE
from rayllm_ctl.model.plan.batch import BatchDeployment, BatchEstimate, BatchPlan
from rayllm_ctl.model.plan.deployment import WorkerGroup
from rayllm_ctl.model.plan.plan import Band, Cost, EngineSettings, ParallelismPlan, Plan, PodSizes
from rayllm_ctl.model.plan.pods import EnvVar, PodTemplate
from rayllm_ctl.model.plan.storage import ModelStoragePlan
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.model.spec.batch_service import service_of
from rayllm_ctl.model.spec.model_storage import CREDENTIALS
from rayllm_ctl.model.spec.pod_options import KeyOf
from rayllm_ctl.planner.batch.settings import settings_of
from rayllm_ctl.planner.deployment.deployment import AUTOSCALER
from rayllm_ctl.planner.deployment.disruptions import DRAIN_LIMIT
from rayllm_ctl.planner.deployment.model_files import model_files
from rayllm_ctl.planner.deployment.pod_templates import START_LIMIT
from rayllm_ctl.planner.deployment.pods import counted_workers

STAGE_CPUS = 6
"""Logical CPUs of a worker for work besides the engine: reading, cutting into batches, two stages before it and one
after it, and one to spare. Workers offer them whatever the pod requests: a stage without one would ask for another
worker, with GPUs."""

BATCHES = 16
"""Batches that a replica works on at once (max_concurrent_batches). A batch makes room for the next one when its last
row is answered, so many small ones keep the engine busier than few large ones."""

_SMALLEST_BATCH, _LARGEST_BATCH = 16, 256
_IN_FLIGHT = 3.0
"""Rows in flight for each that the engine can run: about half of the rows of a batch are answered while it waits for
its last, and others have to take their place."""

RETRIES = 2


def batch_plan(batch: BatchJob, plan: Plan) -> BatchPlan:
    """The plan of `batch`. plan: that of the service with its model and hardware (model.batchservice), with the code on
    the Python path."""
    engine, parallelism, pods = plan.engine, plan.parallelism, plan.pods
    if plan.deployment is None or engine is None or parallelism is None or pods is None:
        return BatchPlan(plan, batch.concurrency)
    if plan.deployment.storage is not None and plan.deployment.storage.model_source is not None:
        # What reads the spec from here on asks where the engine finds the model.
        batch = replace(batch, model=replace(batch.model, path=plan.deployment.storage.model_source, revision=None))
    rows = len(batch.input.prompts) or batch.load.rows
    size = batch.job.batch_size or _batch_size(plan, engine, rows, batch)
    estimate, note = _estimate(plan, rows, batch)
    return BatchPlan(
        plan,
        batch.concurrency,
        batch_size=size,
        batches=BATCHES,
        estimate=estimate,
        estimate_note=note,
        deployment=_deployment(batch, plan, engine, parallelism, pods, size),
    )


def _deployment(
    batch: BatchJob, plan: Plan, engine: EngineSettings, parallelism: ParallelismPlan, pods: PodSizes, size: int
) -> BatchDeployment:
    served = plan.deployment
    assert served is not None  # or there would be nothing to deploy
    job = batch.job
    return BatchDeployment(
        name=batch.name,
        namespace=batch.namespace,
        runtime=served.runtime,
        model_id=batch.model.id,
        settings=settings_of(batch, plan, engine, parallelism, pods, size, BATCHES, engine_cpus(batch, parallelism)),
        cluster=batch.cluster,
        head=_pod(model_files(service_of(batch), plan.file_bytes).driver.on(served.head), batch),
        head_cpu=pods.head_cpu,
        head_memory=pods.head_memory,
        worker=_worker(batch, served.worker, parallelism, pods),
        autoscaler=served.autoscaler or AUTOSCALER,
        ray=served.ray,
        volumes=batch.storage.volumes,
        mounted_code=batch.engine.serving_code == "mounted",
        retries=RETRIES if job.retries is None else job.retries,
        deadline=None if job.deadline is None else int(job.deadline),
        keep_after=int(job.keep_after),
        pod_options=batch.pods,
        pod_security=batch.security.pod_security,
        patches=batch.patches,
        suspend=batch.suspend,
        storage=None if batch.cluster or served.storage is None else _storage(batch, served.storage),
    )


def _storage(batch: BatchJob, storage: ModelStoragePlan) -> ModelStoragePlan:
    """`storage` with pods that belong to a batch job."""
    return replace(storage, downloads=tuple(replace(one, pod=_labelled(one.pod, batch)) for one in storage.downloads))


def _labelled(pod: PodTemplate, batch: BatchJob) -> PodTemplate:
    labels = {name: value for name, value in pod.labels.items() if name != SERVICE}
    return replace(pod, labels={**labels, BATCH: batch.name})


def engine_cpus(batch: BatchJob, parallelism: ParallelismPlan) -> int:
    """Logical CPUs of each process of the engine.

    On CPUs a worker has the memory of one replica, so no second one may fit: a replica takes more CPUs than the stages,
    which are all that a worker offers beyond those of one replica.
    """
    if batch.accelerator.kind == "gpu":
        return 1
    return math.ceil((STAGE_CPUS + 1) / parallelism.gpus_per_replica)


def _worker(batch: BatchJob, group: WorkerGroup, parallelism: ParallelismPlan, pods: PodSizes) -> WorkerGroup:
    """The workers: none until the input is checked and Ray Data asks for an engine, none when rows have run out."""
    processes = parallelism.gpus_per_replica // pods.workers_per_replica
    return replace(
        group,
        min_workers=0,
        max_workers=counted_workers(batch.concurrency.max, pods.workers_per_replica, "spec.concurrency.max"),
        cpus=processes * engine_cpus(batch, parallelism) + STAGE_CPUS,
        readiness=None,
        pod=replace(_pod(group.pod, batch), spread_over_nodes=False),
    )


def _pod(pod: PodTemplate, batch: BatchJob) -> PodTemplate:
    common = (variable for variable in pod.env if variable.name not in (START_LIMIT, DRAIN_LIMIT))  # of Serve
    secret = batch.storage.credentials_secret
    own = {variable.name for variable in pod.env}
    keys = {} if secret is None else {name: flag for name, flag in CREDENTIALS.items() if name not in own}
    access = (EnvVar(name, secret=KeyOf(secret or "", name, optional)) for name, optional in keys.items())
    return replace(_labelled(pod, batch), env=(*access, *common), grace_period=None)


def _batch_size(plan: Plan, engine: EngineSettings, rows: int | None, batch: BatchJob) -> int:
    """Rows of a batch, so that BATCHES of them keep the engine busy; fewer where there are too few for all replicas."""
    held = engine.max_num_seqs
    if plan.throughput is not None:
        held = min(held, math.ceil(plan.throughput.concurrency_at_load.high))
    size = min(_LARGEST_BATCH, max(_SMALLEST_BATCH, math.ceil(_IN_FLIGHT * held / BATCHES / 8) * 8))
    if rows is not None:
        size = min(size, math.ceil(rows / batch.concurrency.max))
    return max(1, size)


def _estimate(plan: Plan, rows: int | None, batch: BatchJob) -> tuple[BatchEstimate | None, str]:
    """Time and cost, or why they are not known: start-up, then all rows at the planned rate of all replicas.

    At least one request passes through: time to first token plus a decode step for each of its tokens.
    """
    if plan.throughput is None or plan.startup is None:
        return None, "the speed on CPUs is not planned"
    if rows is None:
        return None, "the number of rows is unknown: --rows N, or spec.load.rows"
    figures, load, replicas = plan.throughput.at_load, plan.throughput.load, batch.concurrency.max
    alone = plan.throughput.one_request
    rate, start = figures.requests_per_second, plan.startup.ready
    seconds = Band(
        *(
            begin + max(rows / (speed * replicas), first + step * load.output_tokens)
            for begin, speed, first, step in (
                (start.low, rate.high, alone.ttft.low, alone.tpot.low),
                (start.typical, rate.typical, alone.ttft.typical, alone.tpot.typical),
                (start.high, rate.low, alone.ttft.high, alone.tpot.high),
            )
        )
    )
    cost = None
    if isinstance(plan.cost, Cost):
        price = plan.cost.per_hour_at_max_replicas.typical
        cost = Band(*(round(price * one / 3600, 2) for one in (seconds.low, seconds.typical, seconds.high)))
    engines = "1 replica is" if replicas == 1 else f"{replicas} replicas are"
    assumption = (
        f"rows of {load.input_tokens:,} tokens with answers of {load.output_tokens:,}; {engines} up from start to end; "
        "nodes are there"
    )
    return BatchEstimate(rows, seconds, assumption, cost), ""
