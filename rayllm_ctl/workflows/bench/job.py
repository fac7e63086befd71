"""A load test as a Job in the cluster, so that the connection to the cluster is not part of the measurement."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.loadtest.settings import Report, Settings
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.render.bench import BenchPod, render_bench
from rayllm_ctl.workflows.bench.job_run import JobRun, create_objects, read_results, wait_for_start, without_result
from rayllm_ctl.workflows.bench.watch import LoadWatch

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

START_SECONDS = 300.0
"""Seconds for the Job's pod to start: a node may have to pull the image."""


@dataclass(frozen=True)
class JobPlace:
    """Place of a Job: a service's namespace, with the image of its head."""

    cluster: Cluster
    service: str
    namespace: str
    pod: BenchPod


def place_of(cluster: Cluster, name: str, namespace: str, kind: str) -> JobPlace:
    """The place next to the service `name`, an object of `kind`."""
    stored = cluster.get(kind, name, namespace)
    spec = cluster_spec(stored)
    template = spec["headGroupSpec"]["template"]["spec"]
    container = template["containers"][0]
    pod = BenchPod(
        str(container["image"]),
        tuple(template.get("imagePullSecrets") or ()),
        template.get("securityContext"),
        container.get("securityContext"),
    )
    return JobPlace(cluster, name, namespace, pod)


def measure_there(place: JobPlace, settings: Settings, key: SecretKey | None, watch: LoadWatch) -> list[dict[str, Any]]:
    """The results of a Job, which is always deleted.

    An interrupt deletes its pod: the generator then ends with the results so far.
    """
    name = f"{place.service[:40].rstrip('-')}-bench-{secrets.token_hex(3)}"
    config_map, job = render_bench(name, place.service, place.namespace, place.pod, settings.to_json(), key)
    run = JobRun(place.cluster, place.namespace, name, START_SECONDS, "--local    # sends the load from this machine")
    with create_objects(run, job, [config_map]):
        watch.show(f"Job {place.namespace}/{name} created, waiting for its pod")
        return _results(run, wait_for_start(run), watch.report)


def _results(run: JobRun, pod: str, report: Report) -> list[dict[str, Any]]:
    """The output of the generator. After an interrupt its pod is deleted, and it ends with the results so far."""
    lines: list[str] = []
    try:
        for kind, data in read_results(run, pod, lines):
            if kind == "results":
                return list(data)
            report(data)
    except KeyboardInterrupt:
        # The log is read again from its start, and before the pod is deleted, as it ends with the pod.
        again = read_results(run, pod, lines)
        first = next(again, None)
        if first is not None and first[0] != "results":
            _end(run, pod)
        for kind, data in (*((first,) if first else ()), *again):
            if kind == "results":
                return list(data)
    raise without_result(run, pod, lines)


def _end(run: JobRun, pod: str) -> None:
    """Let the kubelet send SIGTERM."""
    stored = run.cluster.get("Pod", pod, run.namespace)
    run.cluster.delete("Pod", pod, run.namespace, uid=stored["metadata"]["uid"], background=True)
