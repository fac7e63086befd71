"""The logs of a service: files of Serve's replicas and their engines on Ray's nodes, and logs of containers.

Ray's dashboard reads files of every node. A container's own log has only Ray's output at start and stop, except for
vLLM's own servers, which log there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError, NotFoundError, api_error, read_status
from rayllm_ctl.cluster.api.service_proxy import cleaned
from rayllm_ctl.cluster.ray.active import active_cluster
from rayllm_ctl.cluster.ray.dashboard import Dashboard, dashboard_of
from rayllm_ctl.cluster.ray.serve import known_state, read_state
from rayllm_ctl.cluster.ray.serve import unread as why_unread
from rayllm_ctl.cluster.snapshot.container_logs import open_log
from rayllm_ctl.errors import UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import COMPONENT, SERVICE
from rayllm_ctl.model.kube.model_downloads import DOWNLOAD_COMPONENT
from rayllm_ctl.model.kube.names import ENGINE_DEPLOYMENT
from rayllm_ctl.model.observed.serve_state import Replica
from rayllm_ctl.model.workload import WorkloadKind

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

LogPod = Mapping[str, Any]

_WHOLE = -1
"""The number of lines that makes Ray send a whole file."""


@dataclass(frozen=True)
class Reading:
    """Options for reading a log. tail: lines from its end, None for all. previous: of the container's previous run.

    times, since: as in container_logs; Ray's files do not support them.
    """

    tail: int | None = None
    follow: bool = False
    previous: bool = False
    times: bool = False
    since: str = ""


@dataclass(frozen=True)
class LogSource:
    """A log in `pod`, of the RayCluster `cluster`. `open` opens it for reading, and raises UserError.

    key: distinguishes runs of a container and replicas. state: waiting before the first line, ended after the last.
    timed: whether its lines have times.
    """

    pod: str
    file: str
    key: str
    cluster: str
    state: Literal["waiting", "running", "ended"]
    timed: bool
    open: Callable[[Reading], AbstractContextManager[BaseHTTPResponse]]


@dataclass(frozen=True)
class Found:
    """Available logs. clusters: the RayClusters for which they are complete; unread: why others could not be read."""

    sources: Sequence[LogSource]
    clusters: frozenset[str] = frozenset()
    unread: Mapping[str, str] = field(default_factory=dict)


def pods_of(cluster: Cluster, kind: WorkloadKind, workload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The pods of the RayClusters that a service's status names, by name."""
    metadata = workload["metadata"]
    selector = kuberay.part_of(kind.clusters_of(workload))
    found = cluster.list("Pod", metadata["namespace"], label_selector=selector) if selector else []
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def operator_pods(cluster: Cluster) -> list[dict[str, Any]]:
    """The pods of the KubeRay operator in any namespace."""
    return cluster.list("Pod", label_selector=kuberay.OPERATOR_SELECTOR)


def download_log_pods(cluster: Cluster, name: str, namespace: str) -> list[dict[str, Any]]:
    """The newest pod of each Job that downloads a model of a service, by name."""
    selector = f"{COMPONENT}={DOWNLOAD_COMPONENT},{SERVICE}={name}"
    newest: dict[str, dict[str, Any]] = {}
    found = cluster.list("Pod", namespace, label_selector=selector)
    for pod in sorted(found, key=lambda one: str(one["metadata"].get("creationTimestamp", ""))):
        newest[str((pod["metadata"].get("labels") or {}).get(kuberay.JOB_NAME))] = pod
    return [newest[job] for job in sorted(newest)]


def of_containers(cluster: Cluster, pods: Iterable[LogPod]) -> list[LogSource]:
    """The log of the first container of each pod: Ray's, or the operator's."""
    return [_of_container(cluster, pod) for pod in pods]


def of_replicas(
    cluster: Cluster, kind: WorkloadKind, workload: Mapping[str, Any], *what: Literal["serve", "engine"],
    answers: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> Found:  # fmt: skip
    """The logs of the replicas that Serve has now, by pod: Serve's of each, what the engines print, or both.

    answers: what Serve has just said, by RayCluster. Raises UserError if the user may not ask Serve.
    """
    found: list[LogSource] = []
    read: set[str] = set()
    unread: dict[str, str] = {}
    for name in kind.clusters_of(workload):
        try:
            dashboard = dashboard_of(cluster, cluster.get(kuberay.RAY_CLUSTER, name, workload["metadata"]["namespace"]))
        except NotFoundError:
            continue  # deleted since the service's status was read
        try:
            started = name == active_cluster(workload)
            known = answers.get(name)
            state = read_state(dashboard, started=started) if known is None else known_state(known, started=started)
        except UserError as error:
            unread[name] = f"Serve state of RayCluster {name} could not be read: {why_unread(error)}"
            if isinstance(error, ForbiddenError):
                raise UserError(unread[name]) from None
            continue
        read.add(name)
        # Replicas without an actor have no log yet.
        replicas = [(one.name, replica) for one in state.deployments for replica in one.replicas if replica.actor]
        if "serve" in what:
            found += [_of_serve(dashboard, name, replica) for _, replica in replicas]
        if "engine" in what:
            engines = [replica for deployment, replica in replicas if deployment.startswith(ENGINE_DEPLOYMENT)]
            chosen = engines or [replica for _, replica in replicas]
            found += [_of_actor(dashboard, name, replica, suffix) for replica in chosen for suffix in ("out", "err")]
    return Found(sorted(found, key=lambda source: source.pod), frozenset(read), unread)


def _of_container(cluster: Cluster, pod: LogPod) -> LogSource:
    metadata = pod["metadata"]
    name, namespace = str(metadata["name"]), str(metadata["namespace"])
    container = str(pod["spec"]["containers"][0]["name"])
    told = (pod.get("status") or {}).get("containerStatuses") or ()
    status: Mapping[str, Any] = next((one for one in told if one.get("name") == container), {})

    def read(how: Reading) -> AbstractContextManager[BaseHTTPResponse]:
        return open_log(
            cluster, name, container, namespace, follow=how.follow, tail=how.tail, previous=how.previous,
            times=how.times, since=how.since,
        )  # fmt: skip

    run = f"{metadata['uid']}/{status.get('restartCount', 0)}"
    of = str((metadata.get("labels") or {}).get(kuberay.CLUSTER, ""))
    return LogSource(name, container, run, of, _state(status), timed=True, open=read)


def _state(status: Mapping[str, Any]) -> Literal["waiting", "running", "ended"]:
    """The state of a container's newest run. One that waits for a restart has the log of its last run."""
    now = status.get("state") or {}
    if "running" in now:
        return "running"
    return "ended" if "terminated" in now or status.get("lastState") else "waiting"


def _of_serve(dashboard: Dashboard, cluster: str, replica: Replica) -> LogSource:
    path = replica.log_file.lstrip("/")  # the dashboard expects a path relative to Ray's folder
    if not path:
        return _of_actor(dashboard, cluster, replica, "err")
    query = [("node_id", replica.node), ("filename", path)]
    return _of_ray(dashboard, cluster, replica, path.rpartition("/")[2], query)


def _of_actor(dashboard: Dashboard, cluster: str, replica: Replica, suffix: str) -> LogSource:
    query = [("actor_id", replica.actor), ("suffix", suffix)]
    return _of_ray(dashboard, cluster, replica, f"{replica.actor[:8]}.{suffix}", query)


def _of_ray(
    dashboard: Dashboard, cluster: str, replica: Replica, file: str, query: Sequence[tuple[str, str]]
) -> LogSource:
    pod = replica.place

    @contextmanager
    def read(how: Reading) -> Iterator[BaseHTTPResponse]:
        lines = str(_WHOLE if how.tail is None else how.tail)
        path = f"/api/v0/logs/{'stream' if how.follow else 'file'}"
        sent = [*query, ("lines", lines), ("filter_ansi_code", "true")]
        limit = None if how.follow else dashboard.cluster.request_timeout or None
        with dashboard.open("GET", path, query=sent, accept="*/*", read_timeout=limit) as response:
            if response.status != 200:
                raise _failure(response.status, response.read(), file, pod)
            yield response

    return LogSource(pod, file, f"{replica.actor}/{file}", cluster, "running", timed=False, open=read)


def _failure(status: int, body: bytes, file: str, pod: str) -> UserError:
    if read_status(body):
        return api_error(status, body, doing=f"read {file} of {pod}")
    return UserError(f"{file} of {pod} could not be read: {cleaned(body.decode('utf-8', 'replace'))}")
