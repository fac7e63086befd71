"""Measure an engine without a server: vLLM's own benchmarks, in a Job with a pod like that of a replica."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rayllm_ctl import __version__
from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds.loadtest import OFFLINE_RIGHTS
from rayllm_ctl.model.bench.offline import Latency, OfflineLoad, OfflineResults
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.plan.plan import Plan
from rayllm_ctl.model.spec.security import Security
from rayllm_ctl.model.spec.service import LLMService, Replicas, Resources
from rayllm_ctl.model.text.lengths import average
from rayllm_ctl.planner.engine.server import offline_arguments
from rayllm_ctl.render.benchoffline import render_offline
from rayllm_ctl.workflows.bench.job_run import (
    JobRun,
    create_objects,
    last_words,
    read_results,
    wait_for_start,
    without_result,
)
from rayllm_ctl.workflows.plan.model import make_plan
from rayllm_ctl.workflows.render.controlled import require_deployable
from rayllm_ctl.workflows.render.manifests import manifests
from rayllm_ctl.workflows.render.types import RenderOptions

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

INPUT, OUTPUT, BATCH = 256, 128, 8
"""Defaults for spec.load: tokens of prompts and answers, and requests of a batch."""

_REPEATS, _WARMUP = 10, 2


@dataclass(frozen=True, kw_only=True)
class OfflineOptions:
    """requests: for the throughput. start_seconds: for the pod to start, as a node may have to be created first."""

    requests: int
    start_seconds: float
    render: RenderOptions


Report = Callable[[str], None]
"""Receives lines of progress."""


def measure_offline(
    service: LLMService, options: OfflineOptions, connect: Callable[[], Cluster], report: Report
) -> OfflineResults:
    """Measure the engine of one replica of `service`. Raises UserError if it cannot run in one pod, before anything
    is applied, or if the Job ends without a result.
    """
    require_deployable(service)
    if isinstance(service.load.input_tokens, str) or isinstance(service.load.output_tokens, str):
        raise UsageError(
            "bench offline measures requests of one length, not a distribution",
            hint=f"--input-tokens {average(service.load.input_tokens) or INPUT} "
            f"--output-tokens {average(service.load.output_tokens) or OUTPUT}",
        )
    reduced = _one_replica(service)
    plan, pod = _planned(reduced, options.render)
    load = OfflineLoad(
        service.load.input_tokens or INPUT,
        service.load.output_tokens or OUTPUT,
        options.requests,
        service.load.concurrency or BATCH,
        _REPEATS,
        _WARMUP,
    )
    assert plan.engine is not None
    assert plan.parallelism is not None
    needed = load.input_tokens + load.output_tokens
    if needed > plan.engine.max_model_len:
        raise UsageError(
            f"{load.input_tokens} tokens of a prompt and {load.output_tokens} of an answer exceed the maximum length "
            f"of {plan.engine.max_model_len}",
            hint=f"--max-model-len {needed}, or lower --input-tokens or --output-tokens",
        )
    cluster = connect()
    namespace = service.namespace or cluster.namespace
    name = f"{service.name[:40].rstrip('-')}-offline-{secrets.token_hex(3)}"
    stored = plan.deployment.storage if plan.deployment else None
    if stored is not None and stored.model_source is not None:
        reduced = replace(reduced, model=replace(reduced.model, path=stored.model_source, revision=None))
    source = reduced.model.path or reduced.model.id
    arguments = offline_arguments(reduced, plan.parallelism, plan.engine)
    job = render_offline(name, namespace, service.name, pod, source, arguments, load)
    run = JobRun(cluster, namespace, name, options.start_seconds, f"kubectl get events -n {namespace}")
    return _measure(run, job, plan, load, report)


def _one_replica(service: LLMService) -> LLMService:
    """The service reduced to one engine in mode raycluster, whose pods run vLLM directly."""
    if service.models:
        raise UsageError("bench offline measures one model", hint="a spec file with spec.model, or --model NAME")
    if service.engine.kind != "vllm":
        raise UsageError("bench offline supports only the engine vLLM", hint="bench NAME")
    return LLMService(
        name=service.name,
        namespace=service.namespace,
        mode="raycluster",
        model=replace(service.model, adapters=()),
        engine=service.engine,
        accelerator=service.accelerator,
        parallelism=service.parallelism,
        replicas=Replicas(min=1, max=1),
        storage=service.storage,
        scheduling=replace(service.scheduling, ray_resources={}),
        resources=Resources(head=service.resources.head, worker=service.resources.worker),
        pods=service.pods,
        security=Security(pod_security=service.security.pod_security),
        load=replace(service.load, concurrency=None, rate=None),
    )


def _planned(service: LLMService, options: RenderOptions) -> tuple[Plan, Mapping[str, Any]]:
    """The plan, and the spec of the pod that runs vLLM."""
    plan = make_plan(service, options.facts, hand_sized=True)
    rendered = manifests(plan, accept_risk=options.accept_risk, kuberay=options.kuberay)
    assert plan.pods is not None  # a plan with manifests has one
    if plan.pods.workers_per_replica > 1:
        raise UsageError(
            f"a replica consists of {plan.pods.workers_per_replica} pods, and vLLM's benchmarks run in one",
            hint="use a --tp that fits on one node, without --pp",
        )
    (cluster,) = (manifest for manifest in rendered if manifest["kind"] == "RayCluster")
    groups = {group["groupName"]: group for group in cluster["spec"]["workerGroupSpecs"]}
    pod: Mapping[str, Any] = groups[kuberay.SERVERS]["template"]["spec"]
    return plan, pod


def _measure(run: JobRun, job: Mapping[str, Any], plan: Plan, load: OfflineLoad, report: Report) -> OfflineResults:
    results: dict[str, Any] = {}
    lines: list[str] = []
    interrupted = False
    begun = datetime.now(UTC)
    with explained(run.cluster, run.namespace, OFFLINE_RIGHTS), create_objects(run, job):
        try:
            report(f"Job {run.namespace}/{run.name} created")
            pod = wait_for_start(run)
            report(f"measuring the throughput of {load.requests} requests")
            for kind, data in read_results(run, pod, lines):
                results[kind] = data
                if kind == "throughput":
                    report(f"measuring the latency of batches of {load.batch}")
            if "throughput" not in results:
                raise without_result(run, pod, lines)
        except KeyboardInterrupt:
            interrupted = True
    return _results(results, plan, load, interrupted, begun, lines)


def _results(
    results: Mapping[str, Any],
    plan: Plan,
    load: OfflineLoad,
    interrupted: bool,
    begun: datetime,
    lines: Sequence[str],
) -> OfflineResults:
    assert plan.parallelism is not None
    assert plan.engine is not None
    throughput, measured = results.get("throughput"), results.get("latency")
    latency = None
    if measured is not None:
        latency = Latency(
            measured["avg_latency"], *(measured["percentiles"][percent] for percent in ("50", "90", "99"))
        )
    return OfflineResults(
        plan.model,
        "CPU" if plan.gpu is None else f"{plan.parallelism.gpus_per_replica} x {plan.gpu.name}",
        load,
        None if throughput is None else throughput["elapsed_time"],
        latency,
        interrupted,
        begun,
        {"rayllm-ctl": __version__, "vllm": plan.engine.vllm_version},
        "" if latency or interrupted else last_words(lines) or "vllm bench latency ended without a result",
    )
