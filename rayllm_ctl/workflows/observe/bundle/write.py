"""Collect the state of a service into a bundle, which `status --from` reads."""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rayllm_ctl import __version__
from rayllm_ctl.changes.redaction import redacted, redacted_text
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.lookup.services import not_found
from rayllm_ctl.cluster.snapshot.log_sources import Reading, of_containers, of_replicas
from rayllm_ctl.cluster.snapshot.service import collect
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import COMPONENT
from rayllm_ctl.model.kube.model_downloads import DOWNLOAD_COMPONENT
from rayllm_ctl.model.observed.health import Object, Snapshot, State
from rayllm_ctl.workflows.observe.bundle.read import ARCHIVES
from rayllm_ctl.workflows.services import find_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster
    from rayllm_ctl.cluster.snapshot.log_sources import LogSource
    from rayllm_ctl.model.workload import WorkloadKind

LOG_LINES = 2000
"""Lines from the end of each log that only people read."""


@dataclass(frozen=True)
class Written:
    """The contents of a bundle. notes: parts that could not be read, and why."""

    objects: int
    logs: int
    notes: tuple[str, ...]


def collect_bundle(cluster: Cluster, name: str, namespace: str, target: Path) -> Written:
    """Write a bundle of service `name` to `target`, as `require_new` permits it.

    Raises NotFoundError if there is no such service.
    """
    with explained(cluster, namespace, RAY_SERVICE.rights_for("status")):
        kind, item = find_service(cluster, name, namespace)
    with explained(cluster, namespace, kind.rights_for("status")):
        snapshot = collect(cluster, kind, name, namespace, item)
    if kind.diagnose(snapshot, name, namespace).state is State.NOT_FOUND:
        raise not_found(cluster, kind, name, namespace)
    notes: list[str] = []
    logs = dict(_more_logs(cluster, kind, snapshot, name, notes))
    about = {"name": name, "namespace": namespace, "kind": kind.name, "version": __version__}
    write_bundle(target, snapshot, about, logs)
    return Written(len(snapshot.objects), len(snapshot.logs) + len(logs), (*snapshot.notes, *notes))


def write_bundle(
    target: Path, snapshot: Snapshot, about: Mapping[str, str], more_logs: Mapping[str, str] | None = None
) -> None:
    """Write a Snapshot without secrets. about: more for meta.json. more_logs: by "<pod>/<file>", only for people."""
    if not target.name.endswith(ARCHIVES):
        _write(target, snapshot, about, more_logs or {})
        return
    with tempfile.TemporaryDirectory() as folder:
        top = target.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
        _write(Path(folder) / top, snapshot, about, more_logs or {})
        packed = Path(folder) / "archive"
        with tarfile.open(packed, "w:gz") as archive:
            archive.add(Path(folder) / top, arcname=top, filter=_anonymous)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(packed, target)  # renamed only when complete


def _write(folder: Path, snapshot: Snapshot, about: Mapping[str, str], more_logs: Mapping[str, str]) -> None:
    meta = {
        **about, "time": snapshot.now.isoformat(), "unread": sorted(snapshot.unread), "notes": list(snapshot.notes),
        "queue": dict(snapshot.queue),
    }  # fmt: skip
    items = [redacted(item) for item in snapshot.objects]
    _put(folder, "objects.json", _json({"apiVersion": "v1", "kind": "List", "items": items}))
    _put(folder, "meta.json", _json(redacted(meta)))
    for name, answer in snapshot.serve.items():
        _put(folder, f"serve/{name}.json", _json(redacted(answer)))
    for name, text in (*snapshot.logs.items(), *((f"{name}.txt", text) for name, text in more_logs.items())):
        pod, _, file = name.partition("/")
        _put(folder, f"logs/{pod}/{file.replace('/', '_')}", redacted_text(text))


def _put(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _json(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """An archive member without the name of the user who collected it."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def require_new(target: Path) -> None:
    """Raise UsageError for a target that is neither an empty or new folder nor a new archive (.tar.gz, .tgz)."""
    if target.name.endswith(ARCHIVES):
        if target.exists():
            raise UsageError(f"{target} exists", hint="-o with the name of a new file")
    elif target.exists() and (not target.is_dir() or any(target.iterdir())):
        hint = "-o with a new folder, or a file that ends in .tar.gz"
        raise UsageError(f"{target} is not an empty folder", hint=hint)


def _more_logs(
    cluster: Cluster, kind: WorkloadKind, snapshot: Snapshot, name: str, notes: list[str]
) -> Iterator[tuple[str, str]]:
    """The ends of the logs of replicas, engines, containers and the operator that can be read."""
    sources = _sources(cluster, kind, snapshot, name, notes)
    with Tasks() as tasks:
        texts = tasks.map(_text, sources)
    for source, text in zip(sources, texts, strict=True):
        if text:
            yield f"{source.pod}/{source.file}", text


def _sources(
    cluster: Cluster, kind: WorkloadKind, snapshot: Snapshot, name: str, notes: list[str]
) -> Sequence[LogSource]:
    workload = snapshot.find(kind.name, name)
    if workload is None:
        return of_containers(cluster, _pods(snapshot, "", ()))
    found = of_containers(cluster, _pods(snapshot, str(workload["metadata"]["namespace"]), kind.clusters_of(workload)))
    if kind.is_cluster:
        return found
    try:
        replicas = of_replicas(cluster, kind, workload, "serve", "engine", answers=snapshot.serve)
        found += replicas.sources
        notes += [f"some logs could not be read: {why}" for why in replicas.unread.values()]
    except UserError as error:
        notes.append(f"some logs could not be read: {error.message}")
    return found


def _pods(snapshot: Snapshot, namespace: str, clusters: Collection[str]) -> Iterator[Object]:
    """The pods of RayClusters in a namespace, those that download models, and those of the operator."""
    for pod in snapshot.of_kind("Pod"):
        metadata = pod["metadata"]
        labels = metadata.get("labels") or {}
        mine = labels.get(kuberay.CLUSTER) in clusters and metadata.get("namespace") == namespace
        downloads = labels.get(COMPONENT) == DOWNLOAD_COMPONENT and metadata.get("namespace") == namespace
        if mine or downloads or kuberay.is_operator(labels):
            yield pod


def _text(source: LogSource) -> str:
    try:
        with source.open(Reading(LOG_LINES)) as response:
            return response.read().decode("utf-8", "replace")
    except UserError:
        return ""  # a container that has not started, a file that does not exist
