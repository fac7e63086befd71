"""Read a recorded bundle, a folder or an archive of one, as a Snapshot."""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.health.objects import rayjob, rayservice
from rayllm_ctl.model.kube.api_kinds import KINDS
from rayllm_ctl.model.kube.kuberay import CLUSTER, RAY_CLUSTER
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object, Snapshot
from rayllm_ctl.model.observed.serve_state import read_serve

ARCHIVES = (".tar.gz", ".tgz")
"""File extensions of archives."""


@contextmanager
def open_bundle(path: Path) -> Iterator[Path]:
    """The folder of a bundle, while the block runs. Raises UsageError if an archive does not contain one."""
    if path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tarfile.open(path, "r:gz") as archive:
                _extract(archive, Path(folder))
        except (tarfile.TarError, OSError, EOFError) as error:
            raise UsageError(f"{path} is not a bundle archive: {error}", hint=_COLLECT) from error
        file = next(Path(folder).glob("**/objects.json"), None)
        if file is None:
            raise UsageError(f"{path} does not contain objects.json", hint=_COLLECT)
        yield file.parent


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract the plain files that stay inside `folder`. extractall has filters since Python 3.11.4."""
    for member in archive:
        name = PurePosixPath(member.name)
        content = archive.extractfile(member) if member.isfile() else None
        if content is not None and not name.is_absolute() and ".." not in name.parts:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())


def namespace_of(path: Path) -> str | None:
    """The namespace of the service in the folder of a bundle, None if the bundle does not contain it."""
    namespace = _meta(path).get("namespace")
    return namespace if isinstance(namespace, str) else None


def bundled_service(path: Path) -> str | None:
    """The name of the service in the folder of a bundle, None if the bundle does not contain it."""
    meta = _meta(path)
    name = meta.get("name") or meta.get("service")
    return name if isinstance(name, str) else None


def read_bundle(path: Path) -> Snapshot:
    """The Snapshot of a bundle.

    A bundle is a folder with objects.json (a v1 List), and, if there were any, serve/<raycluster>.json (Serve's
    answers), logs/<pod>/<file>.log and meta.json ({"time": RFC 3339, from which ages count; "unread", "notes", "queue":
    as in Snapshot}). Other files are for people. Raises UsageError when the folder is not a bundle.
    """
    listed = _json(path / "objects.json")
    items = listed.get("items") if isinstance(listed, Mapping) else None
    if not isinstance(items, list):
        raise UsageError(
            f"{path / 'objects.json'} is not a list of objects", hint="a bundle has a v1 List in objects.json"
        )
    objects = tuple(item for item in items if isinstance(item, Mapping))
    serve = {file.stem: _json(file) for file in sorted((path / "serve").glob("*.json"))}
    logs = {
        f"{file.parent.name}/{file.name}": file.read_text(encoding="utf-8", errors="replace")
        for file in sorted((path / "logs").glob("*/*.log"))
    }
    meta = _meta(path)
    unread = meta.get("unread")
    if not isinstance(unread, list):
        # Without the list (an older release), these are all objects, unless KubeRay or Serve reports pods.
        kinds = {str(item.get("kind")) for item in objects} | {"Pod", RAY_CLUSTER, rayservice.KIND, rayjob.KIND}
        if _lacks_pods(objects, serve.values()):
            kinds.remove("Pod")
        unread = list({kind.name for kind in KINDS.values()} - kinds)
    notes, queue = meta.get("notes"), meta.get("queue")
    return Snapshot(
        objects,
        _time(path, meta),
        {name: answer for name, answer in serve.items() if isinstance(answer, Mapping)},
        logs,
        notes=tuple(map(str, notes)) if isinstance(notes, list) else (),
        unread=frozenset(map(str, unread)),
        queue=queue if isinstance(queue, Mapping) else {},
    )


def _lacks_pods(objects: Iterable[Object], serve: Iterable[Any]) -> bool:
    """Whether there is no pod of a RayCluster, although KubeRay or Serve reports running pods."""
    for item in objects:
        if fields.kind(item) == "Pod" and fields.label(item, CLUSTER):
            return False
    told = any(read_serve(answer).applications for answer in serve)
    return told or any(fields.kind(item) in (RAY_CLUSTER, rayservice.KIND) and _runs(item) for item in objects)


def _runs(item: Object) -> bool:
    """Whether the status of a RayCluster or RayService reports running pods."""
    counts = (fields.integer(item, "status", key) for key in ("readyWorkerReplicas", "numServeEndpoints"))
    return any(counts) or fields.condition(item, "HeadPodReady").get("status") == "True"


_COLLECT = "rayllm-ctl bundle NAME -o FILE.tar.gz"


def _meta(path: Path) -> Mapping[str, Any]:
    meta = _json(path / "meta.json") if (path / "meta.json").exists() else {}
    return meta if isinstance(meta, Mapping) else {"time": None}


def _time(path: Path, meta: Mapping[str, Any]) -> datetime:
    """When the bundle was collected; without meta.json the current time, so that nothing in it looks recent."""
    if not meta:
        return datetime.now(UTC)
    try:
        moment = datetime.fromisoformat(str(meta.get("time")))
    except ValueError:
        raise UsageError(
            f"{path / 'meta.json'} does not have a valid time", hint='such as {"time": "2026-11-21T10:00:00Z"}'
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{file} does not exist", hint="a bundle is a folder with objects.json in it") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}", hint="the bundle is damaged: collect it again") from error
