"""Run a one-off Job and read its results from its log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.snapshot.container_logs import stream
from rayllm_ctl.errors import UserError, WaitTimeoutError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.sentences.classify import sentence_hints
from rayllm_ctl.health.sentences.exceptions import one_line, read_exceptions, reason
from rayllm_ctl.loadtest.__main__ import MARK

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_POLL_SECONDS = 1.0
_WAITING = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
)
BENCH_CONTAINER = "bench"


@dataclass(frozen=True)
class JobRun:
    """A Job by its name. start_seconds: limit for its pod to start, as a node may have to pull the image. hint: for a
    pod that does not start.
    """

    cluster: Cluster
    namespace: str
    name: str
    start_seconds: float
    hint: str


@contextmanager
def create_objects(run: JobRun, job: Mapping[str, Any], others: Sequence[Mapping[str, Any]] = ()) -> Iterator[None]:
    """Create the objects for the duration of the block. The Job owns the others, so they are deleted with it."""
    cluster, namespace = run.cluster, run.namespace
    stored = cluster.create(job, "Job", namespace)
    uid = stored["metadata"]["uid"]
    try:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": run.name, "uid": uid}
        for other in others:
            owned = {**other, "metadata": {**other["metadata"], "ownerReferences": [owner]}}
            cluster.create(owned, other["kind"], namespace)
        yield
    finally:
        with suppress(NotFoundError):
            cluster.delete("Job", run.name, namespace, uid=uid, background=True)


def wait_for_start(run: JobRun) -> str:
    """The name of the Job's pod once it runs or has ended. Raises UserError if it cannot start."""
    deadline = time.monotonic() + run.start_seconds
    message = "no pod was created"
    while time.monotonic() < deadline:
        for pod in run.cluster.list("Pod", run.namespace, label_selector=f"job-name={run.name}"):
            status = pod.get("status") or {}
            if status.get("phase") in ("Running", "Succeeded", "Failed"):
                return str(pod["metadata"]["name"])
            message = _why(status) or message
            waiting = [
                (status_of.get("state") or {}).get("waiting") or {}
                for status_of in status.get("containerStatuses") or ()
            ]
            for state in waiting:
                if state.get("reason") in _WAITING:
                    raise UserError(
                        f"the Job {run.namespace}/{run.name} cannot start: {state['reason']}: "
                        f"{state.get('message', '')}",
                        hint=run.hint,
                    )
        time.sleep(_POLL_SECONDS)
    raise WaitTimeoutError(
        f"the Job {run.namespace}/{run.name} did not start within {run.start_seconds:.0f} s: {message}", hint=run.hint
    )


def _why(status: Mapping[str, Any]) -> str:
    """Why a pod does not run yet, as its conditions say."""
    told = [
        condition
        for condition in status.get("conditions") or ()
        if condition.get("status") == "False" and condition.get("message")
    ]
    return str(told[0]["message"]) if told else "its container has not started"


def read_results(run: JobRun, pod: str, others: list[str]) -> Iterator[tuple[str, Any]]:
    """Kind and data of each marked line of the pod's log; `others` takes the other lines."""
    rest = b""
    for piece in stream(run.cluster, pod, BENCH_CONTAINER, run.namespace, follow=True):
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            text = line.decode("utf-8", "replace")
            if text.startswith(MARK):
                yield next(iter(json.loads(text.removeprefix(MARK)).items()))
            elif text.strip():
                others.append(text.strip())


def last_words(lines: Sequence[str], most: int = 1) -> str:
    """The reason in a log: its root exception, after which an engine keeps logging, else its last lines."""
    failure = read_exceptions("\n".join(lines))
    return one_line(reason(failure.text), 500) if failure else " ".join(lines[-most:])


def without_result(run: JobRun, pod: str, lines: Sequence[str]) -> UserError:
    """The error for a pod that ended without a result: its root exception, else the last lines of its log."""
    failure = read_exceptions("\n".join(lines))
    shown = last_words(lines, 3) or "its log is empty"
    # The pod is deleted with its Job: only hints about settings can be followed.
    own = sentence_hints(failure.text, failure.frames, deploy="rayllm-ctl bench offline …") if failure else ()
    return UserError(
        f"the Job's pod {run.namespace}/{pod} ended without a result: {shown}", hint=(*map(str, own), run.hint)
    )
