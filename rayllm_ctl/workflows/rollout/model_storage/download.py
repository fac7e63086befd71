"""Download the models of a service or batch job before it is applied."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from threading import Event as Stop
from typing import TYPE_CHECKING, Any

from rayllm_ctl.errors import FAILED, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.jobcontext import JobContext
from rayllm_ctl.model.events import Applied, Event
from rayllm_ctl.workflows.rollout.model_storage.apply import apply_downloads, download_jobs, needed_first
from rayllm_ctl.workflows.rollout.model_storage.wait import wait_for_downloads
from rayllm_ctl.workflows.services import ServiceRef

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class ModelUser:
    """The service or batch job that a model is downloaded for.

    state: the end of the error if the download fails, as in "rayservice/qwen was not applied". failed: its exit code.
    """

    name: str
    namespace: str
    state: str
    batch: bool = False
    failed: int = FAILED


def download_models(
    service: ServiceRef, manifests: Sequence[Mapping[str, Any]], limit: float | None, stop: Stop | None,
    *, force_conflicts: bool,
) -> Generator[Event, None, list[Applied]]:  # fmt: skip
    """`download_models_for` a service."""
    state = "was not applied" if service.item is None else "is as it was before"
    user = ModelUser(name=service.name, namespace=service.namespace, state=f"{service.label} {state}")
    return (
        yield from download_models_for(user, service.cluster, manifests, limit, stop, force_conflicts=force_conflicts)
    )


def download_models_for(
    user: ModelUser, cluster: Cluster, manifests: Sequence[Mapping[str, Any]], limit: float | None,
    stop: Stop | None = None, *, force_conflicts: bool,
) -> Generator[Event, None, list[Applied]]:  # fmt: skip
    """Apply what downloads the models of `user`, and wait until they are complete.

    limit: seconds, or infinity; None: do not wait. Returns the applied objects, none if nothing is downloaded. The pods
    with GPUs are not created before: they would hold the GPUs while they wait. Raises as `wait_for_downloads` does.
    """
    first = needed_first(manifests)
    done = yield from apply_downloads(cluster, first, force_conflicts=force_conflicts)
    jobs = [str(job["metadata"]["name"]) for job in download_jobs(first)]
    if limit is not None and jobs:
        context = JobContext if user.batch else ServiceContext
        try:
            yield from wait_for_downloads(cluster, user.name, user.namespace, jobs, limit, stop, context=context)
        except UserError as error:
            code = user.failed if error.exit_code == FAILED else error.exit_code
            raise UserError(f"{error.message}\n{user.state}", hint=error.hints, exit_code=code) from error
    return done
