"""Snapshots of batch jobs, like those of services.

All objects and pods of a job have a common label, which finds them without the names that KubeRay generates.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.follower import Subscription
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.reader import Objects, Reader
from rayllm_ctl.cluster.lookup.jobs import KIND, find_job, is_batch, settings_map
from rayllm_ctl.cluster.lookup.services import list_objects
from rayllm_ctl.cluster.snapshot.collector import SnapshotCollector, claims_of
from rayllm_ctl.cluster.snapshot.container_logs import failed_logs, tails
from rayllm_ctl.cluster.snapshot.downloads import download_logs, download_pods, list_downloads, waits_for_model
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import BATCH
from rayllm_ctl.model.observed.health import Snapshot

LOG_LINES = 500
"""Lines from the end of the submitter's log: the driver logs every 5 s, Ray and vLLM in between."""

SUBMITTERS = 2
"""Number of submitter pods of a job whose logs are read: the newest may have just started."""

Found = tuple[str, str, Snapshot]
"""Name, namespace and Snapshot of a job."""


class JobCollector(SnapshotCollector):
    """Collects the same batch job repeatedly, and slowly changing objects less often."""

    def __init__(self, cluster: Cluster, name: str, namespace: str) -> None:
        super().__init__(cluster, name, namespace)
        self._label = f"{BATCH}={name}"
        self._settings: dict[str, Objects] = {}

    def collect(self) -> Snapshot:
        """A current Snapshot; without the RayJob if there is none.

        Raises UserError when RayJobs cannot be read at all: no such right, no KubeRay, no API server.
        """
        self._reader = Reader(self._cluster)
        with Tasks() as tasks:
            listed = tasks.submit(self._pods, None)
            clusters = tasks.submit(self._list, kuberay.RAY_CLUSTER, self._label)
            job = find_job(self._cluster, self._name, self._namespace)
            # A job is applied after its model has been downloaded.
            downloading = job is None or waits_for_model(job)
            asked = list_downloads(tasks, self._list, self._name, batch=True) if downloading else []
            if job is None and not any(future.result() for future in asked):
                others = self._keep("jobs", partial(self._list, KIND, BATCH))
                return self._snapshot([*others, *listed.result()], {}, {})
            around = tasks.submit(self._keep, "surroundings", self._surroundings)
            events = tasks.submit(self._keep, "events", self._events)
            settings = [tasks.submit(self._settings_of, job)] if job else []
            pods = [*listed.result(), *self._shared_pods(job or {})]
            logs = failed_logs(self._reader, pods, tasks) | _submitter_logs(self._reader, pods, tasks, LOG_LINES)
            downloads = [item for future in asked for item in future.result()]
            if downloading:
                logs |= download_logs(self._reader, downloads, pods, tasks)
            everywhere = [*pods, *download_pods(downloads)]
            claims = {name for pod in everywhere for name in claims_of(pod)}
            around_pods = self._nodes(tasks, everywhere) + self._claims(tasks, claims)
            parts = [*downloads, *clusters.result(), *self._shared_cluster(job or {}), *around.result()]
            parts += [*events.result(), *(item for part in (*settings, *around_pods) for item in part.result())]
            return self._snapshot([*([job] if job else []), *pods, *parts], {}, logs)

    def subscriptions(self) -> list[Subscription]:
        """The subscriptions for changes of this job only."""
        return [
            Subscription(KIND, field_selector=f"metadata.name={self._name}"),
            Subscription("Pod", label_selector=self._label),
        ]

    def _pods(self, ray_cluster: str | None) -> Objects:
        return self._list("Pod", self._label if ray_cluster is None else kuberay.part_of([ray_cluster]))

    def _shared_pods(self, job: Mapping[str, Any]) -> Objects:
        name = _shared(job)
        return self._pods(name) if name else []

    def _shared_cluster(self, job: Mapping[str, Any]) -> Objects:
        name = _shared(job)
        return self._reader.get(kuberay.RAY_CLUSTER, name, self._namespace) if name else []

    def _events(self) -> Objects:
        def concerns(event: Mapping[str, Any]) -> bool:
            about = event.get("involvedObject") or {}
            name = str(about.get("name", ""))
            return name == self._name or name.startswith(f"{self._name}-") or about.get("kind") == "Node"

        return [event for event in self._list("Event") if concerns(event)]

    def _settings_of(self, job: Mapping[str, Any]) -> Objects:
        """The job's settings, which never change: read once."""
        uid = job["metadata"]["uid"]
        if uid not in self._settings:
            read = self._reader.attempt(lambda: [settings_map(self._cluster, job) or {}], "settings of the job")
            self._settings[uid] = [item for item in read if item]
        return self._settings[uid]

    def _node(self, name: str) -> Objects:
        return self._keep(f"node {name}", partial(super()._node, name))


def collect_jobs(cluster: Cluster, namespace: str | None) -> list[Found]:
    """Every batch job of `namespace` (None: of all), sorted by namespace and name, with one list per kind and the log
    of each job's driver. Nodes, claims, quotas and settings are read only for a single job.

    Raises UserError if RayJobs cannot be read at all; other unreadable objects are noted.
    """
    reader = Reader(cluster)
    with Tasks() as tasks:
        listed = [tasks.submit(reader.list, kind, namespace, BATCH) for kind in (kuberay.RAY_CLUSTER, "Pod")]
        warnings = tasks.submit(reader.list, "Event", namespace, "", "type=Warning")
        operator = [
            tasks.submit(partial(reader.list, what, None, kuberay.OPERATOR_SELECTOR)) for what in ("Deployment", "Pod")
        ]
        jobs = [job for job in list_objects(cluster, KIND, namespace, BATCH) if is_batch(job)]
        parts: dict[tuple[str, str], Objects] = {_key(job): [job] for job in jobs}
        for item in (item for future in listed for item in future.result()):
            owner = item["metadata"]["namespace"], item["metadata"]["labels"][BATCH]
            parts.get(owner, []).append(item)
        for event in warnings.result():
            about = str((event.get("involvedObject") or {}).get("name", ""))
            for (where, name), own in parts.items():
                if event["metadata"]["namespace"] == where and (about == name or about.startswith(f"{name}-")):
                    own.append(event)
        pods = [pod for own in parts.values() for pod in own if pod["kind"] == "Pod"]
        logs = _submitter_logs(reader, pods, tasks, LOG_LINES)
        shared = [item for future in operator for item in future.result()]
    now, notes, unread = datetime.now(UTC), tuple(sorted(reader.notes)), frozenset(reader.unread)
    return [
        (name, where, Snapshot((*own, *shared), now, {}, _own(logs, own), notes, unread))
        for (where, name), own in sorted(parts.items())
    ]


def _submitter_logs(reader: Reader, pods: Objects, tasks: Tasks, lines: int) -> dict[str, str]:
    """The ends of the logs of each job's newest submitters."""
    newest: dict[tuple[str, str], Objects] = {}
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), reverse=True):
        job = (pod["metadata"].get("labels") or {}).get(kuberay.JOB_NAME)
        began = (pod.get("status") or {}).get("phase") in ("Running", "Succeeded", "Failed")
        if job and began:
            newest.setdefault((pod["metadata"]["namespace"], job), []).append(pod)
    return tails(reader, [pod for newest_pods in newest.values() for pod in newest_pods[:SUBMITTERS]], tasks, lines)


def _own(logs: Mapping[str, str], objects: Objects) -> dict[str, str]:
    names = {ray_cluster["metadata"]["name"] for ray_cluster in objects}
    return {key: text for key, text in logs.items() if key.partition("/")[0] in names}


def _shared(job: Mapping[str, Any]) -> str:
    """The RayCluster that a job shares with others; empty if it has its own."""
    if not (job.get("spec") or {}).get("clusterSelector"):
        return ""
    return str((job.get("status") or {}).get("rayClusterName") or "")


def _key(job: Mapping[str, Any]) -> tuple[str, str]:
    return job["metadata"]["namespace"], job["metadata"]["name"]
