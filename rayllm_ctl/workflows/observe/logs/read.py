"""The logs of a service: their lines, one log after the other or all as they are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.snapshot.container_logs import pieces
from rayllm_ctl.cluster.snapshot.log_sources import Reading, download_log_pods
from rayllm_ctl.errors import UserError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.workflows.observe.logs.follow import follow_logs
from rayllm_ctl.workflows.observe.logs.lines import LogLine, LogNote, whole_lines
from rayllm_ctl.workflows.observe.logs.select import LogChoice, LogPart
from rayllm_ctl.workflows.services import find_service, require_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.cluster.snapshot.log_sources import LogSource, Reading
    from rayllm_ctl.model.workload import WorkloadKind


def log_lines(
    cluster: Cluster,
    name: str,
    namespace: str,
    part: LogPart,
    *,
    pod: str | None = None,
    tail: int | None = None,
    follow: bool = False,
    previous: bool = False,
    grep: str = "",
) -> Iterator[LogLine | LogNote]:
    """The lines of the logs of `part` of service `name` that contain `grep`.

    pod: that pod alone, of which the container's log is read where Serve has no replica in it; with a note, where Serve
    could not be asked. tail: lines from the end of each log, None for all. follow: all logs at once as they are
    written, those that begin later among them, until the service or `pod` is gone. previous: of the previous run of the
    containers, which is not followed. Raises NotFoundError when there is no such service, UserError when there is no
    such log, or none of them can be read.
    """
    kind, workload = _service(cluster, name, namespace, part)
    with explained(cluster, namespace, RAY_SERVICE.rights_for("logs")):
        choice = LogChoice(cluster, kind, name, namespace, part, pod, previous)
        found = choice.find(workload)
        follow = follow and not previous
        if not found.sources and not (follow and pod is None and part not in ("operator", "download")):
            raise choice.nothing(workload, found)
        if follow:
            lines = follow_logs(choice, found, tail)
        else:
            notes = map(LogNote, found.unread.values())
            lines = chain(notes, _in_turn(found.sources, Reading(tail, previous=previous)))
        for item in lines:
            if isinstance(item, LogNote) or grep in item.text:
                yield item


def _service(cluster: Cluster, name: str, namespace: str, part: LogPart) -> tuple[WorkloadKind, dict[str, Any]]:
    """Kind and object of the service; the object is empty for one that is applied after its model is downloaded."""
    if part == "download":
        kind, item = find_service(cluster, name, namespace)
        if item is not None or download_log_pods(cluster, name, namespace):
            return kind, item or {}
    return require_service(cluster, name, namespace, RAY_SERVICE.rights_for("logs"))


def _labels(sources: Sequence[LogSource]) -> list[str]:
    """The label of a log: its pod, and the file if a pod has several."""
    if len(sources) == 1:
        return [""]
    pods = [source.pod for source in sources]
    return [f"{one.pod}/{one.file}" if pods.count(one.pod) > 1 else one.pod for one in sources]


def _in_turn(sources: Sequence[LogSource], how: Reading) -> Iterator[LogLine | LogNote]:
    failures = 0
    for source, label in zip(sources, _labels(sources), strict=True):
        try:
            with source.open(how) as response:
                for line in whole_lines(pieces(response)):
                    yield LogLine(label, line.decode("utf-8", "replace"))
        except UserError as error:
            failures += 1
            if failures == len(sources):
                raise
            yield LogNote(error.message)
