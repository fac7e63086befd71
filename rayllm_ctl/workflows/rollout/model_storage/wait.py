"""Wait until models are downloaded."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from threading import Event as Stop
from typing import TYPE_CHECKING

from rayllm_ctl.cluster.api.errors import NotFoundError
from rayllm_ctl.cluster.snapshot.model_jobs import collect_model_jobs
from rayllm_ctl.errors import UserError, WaitTimeoutError
from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.rules.modelstorage.downloads import download_findings
from rayllm_ctl.model.events import Downloading, Noted
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed.health import Cause
from rayllm_ctl.model.observed.model_downloads import DownloadState, ModelDownload, format_figures
from rayllm_ctl.workflows.observe.wait import repeat

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.cluster.api.watch import Watch


def wait_for_downloads(
    cluster: Cluster, name: str, namespace: str, jobs: Sequence[str], timeout: float, stop: Stop | None = None,
    *, context: type[ServiceContext] = ServiceContext,
) -> Iterator[Downloading | Noted]:  # fmt: skip
    """Follow the Jobs of these names, of the service, batch job or fetch `name`, until all are complete.

    timeout: seconds, or infinity. context: as what the rules see it. Raises UserError with the cause when one cannot
    become complete, or is deleted;
    WaitTimeoutError with how far they are. The Jobs are left as they are, also after `stop`.
    """
    begin = time.monotonic()
    said: set[tuple[str, str]] = set()
    causes: list[Cause] = []
    found: dict[str, ModelDownload] = {}

    def look(_changes: Watch, _changed: bool) -> ServiceContext:
        return context(collect_model_jobs(cluster, namespace, jobs), name, namespace)

    try:
        for seen in repeat(cluster, namespace, look, timeout, stop):
            if isinstance(seen, Noted):
                yield seen
                continue
            found = {one.name: one.view for one in seen.model_jobs}
            for view in found.values():
                yield Downloading(view, namespace, time.monotonic() - begin)
            if all(job in found and found[job].state is DownloadState.COMPLETE for job in jobs):
                return
            causes = [one.cause for one in download_findings(seen)]
            _raise_if_terminal(causes, namespace)
            for cause in causes:
                if (cause.code, cause.object) not in said:
                    said.add((cause.code, cause.object))
                    yield Noted(f"{cause.code}: {cause.message}")
    except NotFoundError as error:
        raise UserError(
            f"{error.message}: it was deleted during the download; the model is not complete",
            hint=f"kubectl get jobs -n {namespace}",
        ) from error
    if stop is None or not stop.is_set():
        raise _timed_out(found.values(), causes, jobs, namespace, timeout)


def _raise_if_terminal(causes: Sequence[Cause], namespace: str) -> None:
    for cause in causes:
        if cause.terminal:
            evidence = "".join(f"\n  {line}" for line in cause.evidence)
            hints = tuple(map(str, cause.hint)) or (f"kubectl describe {cause.object} -n {namespace}",)
            raise UserError(f"{cause.code}: {cause.message} ({cause.object}){evidence}", hint=hints)


def _timed_out(
    downloads: Iterable[ModelDownload], causes: Sequence[Cause], jobs: Sequence[str], namespace: str, timeout: float
) -> WaitTimeoutError:
    lines = [f"\n  job/{one.job}: {one.state}, {format_figures(one) or 'no figures yet'}" for one in downloads]
    lines += [f"\n  {one.object}: {one.message}" for one in causes]
    return WaitTimeoutError(
        f"the model is not downloaded after {format_duration(timeout)}; the download continues{''.join(lines)}",
        hint=(
            f"kubectl logs job/{jobs[0]} -n {namespace} -f    # follow it",
            "run the command again to wait for it    # with a larger --timeout",
        ),
    )
