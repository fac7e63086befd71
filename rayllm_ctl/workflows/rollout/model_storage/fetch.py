"""Download a model into a claim or bucket, without a service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from threading import Event as Stop
from typing import TYPE_CHECKING, Any, Literal

from rayllm_ctl.catalog.releases import resolve_release
from rayllm_ctl.catalog.sources import find
from rayllm_ctl.catalog.sources.find import CONFIG_HINT
from rayllm_ctl.cluster.apply.apply import apply
from rayllm_ctl.cluster.lookup.rights import require_rights
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.fetchcontext import FetchContext
from rayllm_ctl.model.events import Downloading, Event, Noted, Rendered
from rayllm_ctl.model.kube.names import MAX_SERVICE_NAME, service_name
from rayllm_ctl.model.observed.model_downloads import DownloadState
from rayllm_ctl.model.plan.storage import ModelStoragePlan
from rayllm_ctl.model.spec.fact_sources import OFFLINE, FactSources
from rayllm_ctl.model.spec.model_storage import AUTO_SIZE, Mirror, ModelStorage
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.workload import Right
from rayllm_ctl.planner.deployment.buckets import reaches_a_source
from rayllm_ctl.planner.deployment.claims import require_capacity
from rayllm_ctl.planner.deployment.downloads import downloads
from rayllm_ctl.planner.deployment.model_files import model_files
from rayllm_ctl.planner.memory.shards import whole_weights
from rayllm_ctl.render.fetch import render_fetch
from rayllm_ctl.workflows.rollout.manifests import placed
from rayllm_ctl.workflows.rollout.model_storage.apply import apply_downloads, download_jobs
from rayllm_ctl.workflows.rollout.model_storage.checks import require_storage
from rayllm_ctl.workflows.rollout.model_storage.wait import wait_for_downloads

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_SIZE = "spec.storage.model.mirror.to.claim.create.size: "
"""The field of a spec that --size is."""

_PREFIX = "fetch-"
"""How the names of the objects begin: those of a service of the model have none, and neither deletes the others."""


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    """dry_run: as of DeployOptions. verify: read the files of a complete folder too. timeout: seconds to wait. facts:
    where the size of the model is looked up."""

    dry_run: Literal["none", "client", "server"] = "none"
    wait: bool = True
    verify: bool = False
    timeout: float
    force_conflicts: bool = False
    facts: FactSources = FactSources()


def fetch_name(model: str) -> str:
    """The name of the objects that download a model."""
    return f"{_PREFIX}{service_name(model)}"[:MAX_SERVICE_NAME].rstrip("-")


def fetch(
    service: LLMService, options: FetchOptions, connect: Callable[[], Cluster], stop: Stop | None = None
) -> Iterator[Event | Rendered]:
    """Download the model of `service`, which has a mirror, yielding Rendered, Checked, Applied, Downloading, Noted.

    Raises UserError before anything is applied if the cluster cannot store it, and later with the cause if the download
    fails; what has been downloaded stays, and another fetch continues from there. `stop` ends the wait alone.
    """
    _require_used(service.engine.env)
    size = _model_bytes(service, options.facts)
    rendered = _manifests(service, size, verify=options.verify)
    yield Rendered(tuple(rendered))
    if options.dry_run == "client":
        return
    cluster = connect()
    namespace = service.namespace or cluster.namespace
    kinds = dict.fromkeys(str(item["kind"]) for item in rendered)
    require_rights(cluster, namespace, [Right(verb, kind) for kind in kinds for verb in ("get", "create", "patch")])
    manifests = yield from require_storage(cluster, [placed(item, namespace) for item in rendered], namespace, size)
    if options.dry_run == "server":
        for event, _ in apply(cluster, manifests, dry_run="server", force_conflicts=options.force_conflicts):
            yield event
        return
    yield from apply_downloads(cluster, manifests, force_conflicts=options.force_conflicts, again=options.verify)
    jobs = [str(job["metadata"]["name"]) for job in download_jobs(manifests)]
    if options.wait:
        yield from _follow(cluster, service, namespace, jobs, options.timeout, stop)


def _require_used(env: Mapping[str, str]) -> None:
    for name in env:
        if not reaches_a_source(name):
            raise UsageError(
                f"--env {name}: the Job does not use this variable",
                hint="--env HF_ENDPOINT=URL, HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE, AWS_... or GOOGLE_...",
            )


def _follow(
    cluster: Cluster, service: LLMService, namespace: str, jobs: list[str], timeout: float, stop: Stop | None
) -> Iterator[Event]:
    first: Downloading | None = None
    for event in wait_for_downloads(cluster, service.name, namespace, jobs, timeout, stop, context=FetchContext):
        yield event
        if first is None and isinstance(event, Downloading):
            first = event
    if stop is not None and stop.is_set():
        return
    if first is not None and first.download.state is DownloadState.COMPLETE:
        yield Noted(f"job/{jobs[0]} had downloaded it before: nothing was fetched")
    yield Noted(f"in a spec file: {_use(service)}")
    yield Noted(
        f"rayllm-ctl delete {service.name} -n {namespace}    # deletes the Job and its settings; the files stay"
    )


def _use(service: LLMService) -> str:
    """The section of a spec that serves the files."""
    to = _mirror(service).to
    if to.object_store is not None:
        return f"storage.model.objectStore.uri: {to.object_store.uri}"
    folder = str(model_files(service, None).source).removeprefix("/models").lstrip("/")
    claim = to.claim.name if to.claim is not None else ""
    return f"storage.model.claim: {{name: {claim}{f', path: {folder}' if folder else ''}}}"


def _manifests(service: LLMService, size: int | None, *, verify: bool) -> list[dict[str, Any]]:
    runtime = resolve_release(service.engine)
    if runtime.image is None:
        raise UsageError(f"no image for the Job: {runtime.image_note}", hint="--image REGISTRY/IMAGE:TAG")
    try:
        require_capacity(ModelStorage(mirror=_mirror(service)), {service.model.id: size})
    except UsageError as error:
        flag = [str(hint).replace(_SIZE, "--size ") for hint in error.hints]
        raise UsageError(error.message.replace(_SIZE, "--size "), hint=flag) from error
    claims = model_files(service, size).claims
    jobs = downloads(service, None, size)
    if verify:
        jobs = tuple(replace(job, container=replace(job.container, verify=True)) for job in jobs)
    plan = ModelStoragePlan(claims=claims, downloads=jobs)
    return render_fetch(service.name, service.namespace, runtime, plan)


def _model_bytes(service: LLMService, facts: FactSources) -> int | None:
    """The bytes of the model's files for a claim that is created; None: nobody has to know, or the catalog does not."""
    claim = _mirror(service).to.claim
    if claim is None or claim.create is None:
        return None
    try:
        found = find(service.model, facts if claim.create.size == AUTO_SIZE else OFFLINE)
    except UserError as error:
        if claim.create.size != AUTO_SIZE:
            return None
        if CONFIG_HINT not in error.hints:
            raise
        # `fetch` has no such flag: it does not plan, and needs no more than the size.
        hints = ["--size SIZE    # such as 200Gi" if one == CONFIG_HINT else one for one in error.hints]
        raise UserError(error.message, hint=hints) from error
    # The catalog has no sizes of files; its configs say how large the weights are.
    return found.exact_bytes or whole_weights(found.facts, found.facts.dtype)


def _mirror(service: LLMService) -> Mirror:
    model = service.storage.model
    assert model is not None
    assert model.mirror is not None
    return model.mirror
