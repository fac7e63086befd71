"""The logs of a service: which there are, and their lines, one after the other or all as they are written."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model import kuberay
from rayllm_ctl.model.names import nearest
from rayllm_ctl.model.workload import WorkloadKind
from rayllm_ctl.workflows.services import kind_of

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.cluster.logsources import LogSource, Reading

Part = Literal["replicas", "engine", "head", "operator"]

WAIT_SECONDS = 0.5
"""In which an interruption is noticed while nothing is written."""

_MOST_HINTS = 5


@dataclass(frozen=True)
class LogLine:
    """A line of the log `source`, without its end; source is empty where there is only one."""

    source: str
    text: str


@dataclass(frozen=True)
class LogProblem:
    """Why a log, of several, cannot be read, or not any further."""

    message: str


def log_lines(
    cluster: Cluster,
    name: str,
    namespace: str,
    part: Part,
    *,
    pod: str | None = None,
    tail: int | None = None,
    follow: bool = False,
    previous: bool = False,
    grep: str = "",
) -> Iterator[LogLine | LogProblem]:
    """The lines of the logs of `part` of service `name` that contain `grep`.

    pod: that pod alone, of which the container's log is read where Serve has no replica in it. tail: lines from the
    end of each log, None for all. follow: all logs at once as they are written, until the last of them ends. previous:
    of the previous run of the containers. Raises NotFoundError when there is no such service, UserError when there is
    no such log, or none of them can be read.
    """
    from rayllm_ctl.cluster.logsources import Reading
    from rayllm_ctl.cluster.permissions import explained

    if previous and part == "engine":
        raise UsageError(
            "--previous is about containers, and the engine runs inside one",
            hint=f"rayllm-ctl logs {name} -n {namespace} --previous",
        )
    with explained(cluster, namespace, RAY_SERVICE.rights_for("logs")):
        sources = _sources(cluster, name, namespace, part, pod, previous)
        labels = _labels(sources)
        how = Reading(tail, follow, previous)
        lines = _together(sources, labels, how) if follow else _in_turn(sources, labels, how)
        failures = 0
        for item in lines:
            if isinstance(item, UserError):
                failures += 1
                if failures == len(sources):
                    raise item
                yield LogProblem(item.message)
            elif grep in item.text:
                yield item


def _sources(
    cluster: Cluster, name: str, namespace: str, part: Part, pod: str | None, previous: bool
) -> list[LogSource]:  # fmt: skip
    from rayllm_ctl.cluster.logsources import of_containers, of_replicas, operator_pods, pods_of
    from rayllm_ctl.cluster.services import require

    kind = kind_of(cluster, name, namespace)
    workload = require(cluster, kind, name, namespace)
    if part == "operator":
        operators = operator_pods(cluster)
        if not operators:
            raise UserError(
                "no pod of the KubeRay operator can be found", hint=f"rayllm-ctl status {name} -n {namespace}"
            )
        return of_containers(cluster, operators)
    pods = pods_of(cluster, kind, workload)
    if pod is not None:
        return _of_pod(cluster, kind, workload, pods, pod, previous)
    if part == "head" or previous or kind.is_cluster:
        chosen = [one for one in pods if _is_wanted(one, kind, part)]
        if not chosen:
            raise _nothing(name, namespace, part, pods)
        return of_containers(cluster, chosen)
    found = of_replicas(cluster, kind, workload, "engine" if part == "engine" else "serve")
    if not found:
        raise _nothing(name, namespace, part, pods)
    return found


def _of_pod(
    cluster: Cluster,
    kind: WorkloadKind,
    workload: dict[str, Any],
    pods: Sequence[dict[str, Any]],
    pod: str,
    previous: bool,
) -> list[LogSource]:
    from rayllm_ctl.cluster.logsources import of_containers, of_replicas

    name, namespace = workload["metadata"]["name"], workload["metadata"]["namespace"]
    chosen = [one for one in pods if _name(one) == pod]
    if not chosen:
        names = [_name(one) for one in pods]
        close = nearest(pod, names)
        first = [close] if close else []
        shown = [*first, *(one for one in names if one not in first)][:_MOST_HINTS]
        raise UserError(
            f'{name} has no pod "{pod}"',
            hint=[f"rayllm-ctl logs {name} -n {namespace} --replica {one}" for one in shown]
            or f"rayllm-ctl status {name} -n {namespace}",
        )
    if not previous and not kind.is_cluster:
        try:
            found = [one for one in of_replicas(cluster, kind, workload, "serve") if one.pod == pod]
        except UserError:
            found = []
        if found:
            return found
    return of_containers(cluster, chosen)


def _is_wanted(pod: dict[str, Any], kind: WorkloadKind, part: Part) -> bool:
    labels = pod["metadata"].get("labels") or {}
    if part == "head":
        return bool(labels.get(kuberay.NODE_TYPE) == kuberay.HEAD)
    if kind.is_cluster:
        return bool(labels.get(kuberay.GROUP) == kuberay.SERVERS)
    return bool(labels.get(kuberay.NODE_TYPE) == "worker")


def _nothing(name: str, namespace: str, part: Part, pods: Sequence[dict[str, Any]]) -> UserError:
    hints = [f"rayllm-ctl status {name} -n {namespace}"]
    if pods and part != "head":
        hints.append(f"rayllm-ctl logs {name} -n {namespace} --head")
    return UserError(f"{name} has no {'head' if part == 'head' else 'replicas'} now", hint=hints)


def _name(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["name"])


def _labels(sources: Sequence[LogSource]) -> list[str]:
    """What tells the logs apart: the pod; the file as well where a pod has several."""
    if len(sources) == 1:
        return [""]
    pods = [source.pod for source in sources]
    return [f"{one.pod}/{one.file}" if pods.count(one.pod) > 1 else one.pod for one in sources]


def _in_turn(sources: Sequence[LogSource], labels: Sequence[str], how: Reading) -> Iterator[LogLine | UserError]:
    for source, label in zip(sources, labels, strict=True):
        try:
            for text in _lines(source.read(how)):
                yield LogLine(label, text)
        except UserError as error:
            yield error


def _together(sources: Sequence[LogSource], labels: Sequence[str], how: Reading) -> Iterator[LogLine | UserError]:
    """A daemon thread per log: nothing has to end them when the command does."""
    written: queue.SimpleQueue[LogLine | UserError | None] = queue.SimpleQueue()

    def read(source: LogSource, label: str) -> None:
        try:
            for text in _lines(source.read(how)):
                written.put(LogLine(label, text))
        except UserError as error:
            written.put(error)
        finally:
            written.put(None)

    for source, label in zip(sources, labels, strict=True):
        threading.Thread(target=read, args=(source, label), name="log", daemon=True).start()
    left = len(sources)
    while left:
        try:
            item = written.get(timeout=WAIT_SECONDS)
        except queue.Empty:
            continue
        if item is None:
            left -= 1
        else:
            yield item


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    """Whole lines as soon as they are there; at the end what is left."""
    buffer = b""
    for piece in pieces:
        *whole, buffer = (buffer + piece).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)
    if buffer:
        yield buffer.decode("utf-8", "replace")
