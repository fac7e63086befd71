"""Logs of containers: the ends of failed ones, and whole logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ApiError, ForbiddenError, UnreachableError
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.reader import Reader
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.api_kinds import kind

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

LINES = 100
"""Lines from the end of a log: enough for an exception and its context."""

MOST = 8
"""Maximum number of containers whose logs are read at once: failures on many nodes usually have the same reason."""

TIMEOUT = 5.0
"""Seconds for one log: the kubelet of a lost node does not answer."""

KUBELET_SECONDS = 1.0
"""Seconds within which a kubelet sends the end of a log, unless its node is lost or very busy."""


def failed_logs(reader: Reader, pods: Sequence[Mapping[str, Any]], tasks: Tasks) -> dict[str, str]:
    """Logs of the failed containers of `pods`, by "<pod>/<container>.log" (".previous.log" of the run before)."""
    wanted = [container for pod in pods for container in _failed(pod)][:MOST]
    return _read(reader, wanted, tasks)


def whole_logs(
    reader: Reader, pods: Sequence[Mapping[str, Any]], tasks: Tasks, *, whose: str = "pods"
) -> dict[str, str]:
    """Logs of all containers of `pods`. whose: their name in a note; empty: no note."""
    wanted = [(pod, container["name"], False) for pod in pods for container in pod["spec"]["containers"]][:MOST]
    return _read(reader, wanted, tasks, whose=whose)


def tails(reader: Reader, pods: Sequence[Mapping[str, Any]], tasks: Tasks, lines: int) -> dict[str, str]:
    """The last `lines` of the log of each pod's first container, if it has one."""
    return _read(reader, [(pod, pod["spec"]["containers"][0]["name"], False) for pod in pods], tasks, lines)


def timed_tails(
    reader: Reader, wanted: Sequence[tuple[Mapping[str, Any], str]], tasks: Tasks, lines: int
) -> dict[str, str]:
    """The last `lines` of the logs of these containers of pods, each line with its time."""
    return _read(reader, [(pod, container, False) for pod, container in wanted][:MOST], tasks, lines, times=True)


def is_out_of_reach(cluster: Cluster, pod: Mapping[str, Any]) -> bool:
    """Whether the node of a pod does not answer. With the rights of a viewer only a log request reaches it.

    A kubelet that rejects connections is restarting, on a live node.
    """
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    query = [("container", pod["spec"]["containers"][0]["name"]), ("tailLines", "1"), ("limitBytes", "1")]
    try:
        cluster.request_text(
            kind("Pod").path(namespace, name, "log"), query=query, doing=f"reach the node of {name}",
            timeout=KUBELET_SECONDS,
        )  # fmt: skip
    except UnreachableError as error:
        return error.silent
    except ApiError as error:
        return "dial tcp" in error.server_message and "refused" not in error.server_message
    except UserError:
        return False
    return False


@contextmanager
def open_log(
    cluster: Cluster,
    pod: str,
    container: str,
    namespace: str,
    *,
    follow: bool,
    tail: int | None = None,
    previous: bool = False,
    times: bool = False,
    since: str = "",
) -> Iterator[BaseHTTPResponse]:
    """The open log of a container; with `follow` as it is written, until the container ends. Raises UserError.

    tail: lines from its end, None for all of it. previous: of the previous run. times: each line begins
    with its time and a space. since: only lines from about that time on, perhaps some earlier ones.
    """
    query = [("container", container), ("follow", str(follow).lower()), ("previous", str(previous).lower())]
    query += [] if tail is None else [("tailLines", str(tail))]
    query += [("timestamps", "true")] if times else []
    query += [("sinceTime", since)] if since else []
    doing = f"read the log of {pod}"
    path = kind("Pod").path(namespace, pod, "log")
    limit = None if follow else cluster.request_timeout or None
    with cluster.open("GET", path, query=query, accept="*/*", read_timeout=limit) as response:
        if response.status != 200:
            raise cluster.failure(response.status, response.read(), doing)
        yield response


def pieces(response: BaseHTTPResponse) -> Iterator[bytes]:
    """The body of a response as it arrives."""
    while piece := response.read1(65536):
        yield piece


def stream(cluster: Cluster, pod: str, container: str, namespace: str, *, follow: bool) -> Iterator[bytes]:
    """A container's whole log in pieces; with `follow` as it is written, until the container ends."""
    with open_log(cluster, pod, container, namespace, follow=follow) as response:
        yield from pieces(response)


def _failed(pod: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str, bool]]:
    """Pod, container, and whether its previous run is meant."""
    status = pod.get("status") or {}
    for status_of in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        now, before = status_of.get("state") or {}, (status_of.get("lastState") or {}).get("terminated") or {}
        if (now.get("terminated") or {}).get("exitCode"):
            yield pod, status_of["name"], False
        elif before.get("exitCode"):
            yield pod, status_of["name"], True


def _read(
    reader: Reader,
    wanted: Sequence[tuple[Mapping[str, Any], str, bool]],
    tasks: Tasks,
    lines: int = LINES,
    whose: str = "pods",
    times: bool = False,
) -> dict[str, str]:
    def one(item: tuple[Mapping[str, Any], str, bool]) -> str:
        pod, container, previous = item
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        query = [("container", container), ("tailLines", str(lines)), ("previous", str(previous).lower())]
        query += [("timestamps", "true")] if times else []
        try:
            return reader.cluster.request_text(
                kind("Pod").path(namespace, name, "log"), query=query, doing=f"read the log of {name}", timeout=TIMEOUT
            )
        except ForbiddenError as error:
            if whose:
                reader.notes.add(f"logs of {whose} could not be read: not permitted to {error.right}")
            return ""
        except UserError:
            return ""  # the container has no log, or its node does not answer

    names = [
        f"{pod['metadata']['name']}/{container}{'.previous' if previous else ''}.log"
        for pod, container, previous in wanted
    ]
    return {name: text for name, text in zip(names, tasks.map(one, wanted), strict=True) if text}
