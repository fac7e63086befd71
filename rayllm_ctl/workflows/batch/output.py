"""Read the output of a batch job: from an object store through pyarrow; for a volume, raise an error with commands."""

from __future__ import annotations

import base64
import json
import math
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.lookup.jobs import pod_templates, require_job, settings_map
from rayllm_ctl.errors import UserError, not_written
from rayllm_ctl.files import file_to_replace
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.kinds.rayjob import JOB_RIGHTS
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import BATCH
from rayllm_ctl.model.observed.batch_status import SETTINGS

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_STORES = ("s3://", "gs://")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Variables of the AWS SDKs for a store address other than the one that the job uses in the cluster."""

_GCS_SECONDS = 30.0
"""Time limit for retries. The default is 15 minutes, even without credentials."""

_HELPER = "busybox:1.37"
"""Image of the pod that a hint suggests for reading a volume."""


@dataclass(frozen=True)
class JobOutput:
    """The output of a job: `path` as in its settings, and how to reach its object store."""

    job: str
    namespace: str
    path: str
    endpoint: str = ""
    region: str = ""
    anonymous: bool = False


def output_of(cluster: Cluster, name: str, namespace: str) -> JobOutput:
    """The output of batch job `name`, in an object store.

    Raises NotFoundError when there is no such job, UserError if its settings are gone or its output is on a volume.
    """
    with explained(cluster, namespace, JOB_RIGHTS["output"]):
        job = require_job(cluster, name, namespace)
        written = settings_map(cluster, job)
        settings = json.loads(written["data"][SETTINGS]) if written else {}
        path = str((settings.get("output") or {}).get("path") or "")
        if not path:
            raise UserError(
                f"the settings of {name} could not be found, so its output folder is not known",
                hint=f"kubectl get configmaps -n {namespace} -l {BATCH}={name}",
            )
        if not path.startswith(_STORES):
            raise _on_a_volume(cluster, job, path)
    storage = settings.get("storage") or {}
    own = next((os.environ[key] for key in _ENDPOINTS if os.environ.get(key)), "")
    return JobOutput(
        name,
        namespace,
        path.rstrip("/"),
        own or str(storage.get("endpoint") or ""),
        str(storage.get("region") or ""),
        storage.get("anonymous") is True,
    )


def first_rows(output: JobOutput, count: int) -> Iterator[str]:
    """The first `count` rows that are done, in the order of the input, each as JSON on one line."""
    files, parts = _parts(output)
    left = count
    for part in parts:
        for row in _rows(output, files, part, left):
            yield row
            left -= 1
        if left <= 0:
            return


def download_output(output: JobOutput, folder: Path) -> Iterator[str]:
    """Copy every part into `folder` and yield its name; skips parts that exist with the same size.

    UsageError before anything is copied if one of them would replace what is not a file, such as a named pipe.
    """
    files, parts = _parts(output)
    again = f"rayllm-ctl batch download {output.job} DIR -n {output.namespace}    # another directory"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        targets = [file_to_replace(folder / part.base_name, again) for part in parts]
        beside = [file_to_replace(target.with_name(f"{target.name}.unfinished"), again) for target in targets]
        for part, target, unfinished in zip(parts, targets, beside, strict=True):
            if target.exists() and target.stat().st_size == part.size:
                continue
            with unfinished.open("wb") as file:
                file.writelines(_pieces(output, files, part))
            unfinished.replace(target)
            yield part.base_name
    except OSError as error:
        raise not_written(Path(folder), error) from error


def _pieces(output: JobOutput, files: Any, part: Any) -> Iterator[bytes]:
    with _reading(output), files.open_input_stream(part.path, compression=None) as stream:
        while piece := stream.read(1 << 20):
            yield piece


def _parts(output: JobOutput) -> tuple[Any, list[Any]]:
    """The filesystem and the parts in it, by name: the order of the input."""
    fs = _pyarrow(output)
    scheme, _, inside = output.path.partition("://")
    with _reading(output):
        if scheme == "s3":
            options = {"endpoint_override": output.endpoint, "region": output.region}
            files = fs.S3FileSystem(
                anonymous=output.anonymous, **{key: value for key, value in options.items() if value}
            )
        else:
            patience = timedelta(seconds=_GCS_SECONDS)
            files = fs.GcsFileSystem(anonymous=output.anonymous, retry_time_limit=patience)
        infos = files.get_file_info(fs.FileSelector(inside, allow_not_found=True))
    parts = [info for info in infos if info.base_name.startswith("part-") and info.type == fs.FileType.File]
    if not parts:
        raise UserError(
            f"{output.path} has no rows yet",
            hint=f"rayllm-ctl batch status {output.job} -n {output.namespace}",
        )
    return files, sorted(parts, key=lambda info: str(info.base_name))


def _rows(output: JobOutput, files: Any, part: Any, count: int) -> Iterator[str]:
    """At most `count` rows of a part as JSON."""
    if part.base_name.endswith(".parquet"):
        import pyarrow.parquet

        with _reading(output), files.open_input_file(part.path) as file:
            first = next(pyarrow.parquet.ParquetFile(file).iter_batches(batch_size=count), None)
            rows = first.to_pylist() if first is not None else []
        yield from (json.dumps(_plain(row), ensure_ascii=False) for row in rows)
        return
    with _reading(output), files.open_input_stream(part.path, compression=None) as stream:
        lines: list[bytes] = []
        buffer = b""
        while len(lines) < count and (piece := stream.read(1 << 16)):
            *whole, buffer = (buffer + piece).split(b"\n")
            lines += whole
        lines += [buffer] if buffer else []
    yield from (line.decode("utf-8", "replace") for line in lines[:count])


def _plain(value: Any) -> Any:
    """A value of a Parquet file as JSON data, in the forms of JSONL output."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (str, int)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _pyarrow(output: JobOutput) -> Any:
    try:
        from pyarrow import fs
    except ModuleNotFoundError as error:
        raise UserError(
            f"reading {output.path} needs the package pyarrow, which is not installed",
            hint=("pip install pyarrow", f"or with another client of the store: aws s3 ls {output.path}/"),
        ) from error
    return fs


@contextmanager
def _reading(output: JobOutput) -> Iterator[None]:
    """Raise errors of the object store as UserError."""
    try:
        yield
    except (OSError, ValueError) as error:
        at = f" at {output.endpoint}" if output.endpoint else ""
        hints = [
            "credentials come from the environment: AWS_ACCESS_KEY_ID, AWS_PROFILE, GOOGLE_APPLICATION_CREDENTIALS"
        ]
        if output.endpoint:
            hints.append("AWS_ENDPOINT_URL_S3=http://…    # its address from here, if that is one inside the cluster")
        raise UserError(f"{output.path} cannot be read{at}: {' '.join(str(error).split())}", hint=hints) from error


def _on_a_volume(cluster: Cluster, job: Mapping[str, Any], path: str) -> UserError:
    """The error for an output on a volume, with commands to copy it: from the running head, or from a new pod."""
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    message = f"the output of {name} is on a volume of its pods, {path}, which cannot be read from here"
    selector = f"{BATCH}={name},{kuberay.NODE_TYPE}={kuberay.HEAD}"
    for pod in cluster.list("Pod", namespace, label_selector=selector):
        if (pod.get("status") or {}).get("phase") == "Running":
            return UserError(message, hint=f"kubectl cp {namespace}/{pod['metadata']['name']}:{path} ./{name}")
    spec: Mapping[str, Any] = next(iter(pod_templates(job)), {})
    container: Mapping[str, Any] = next(iter(spec.get("containers") or ()), {})
    mounts = [
        mounted for mounted in container.get("volumeMounts") or () if _is_below(path, str(mounted.get("mountPath")))
    ]
    mount = max(mounts, key=lambda mounted: len(mounted["mountPath"]), default=None)
    volume = next((entry for entry in spec.get("volumes") or () if mount and entry["name"] == mount["name"]), None)
    if mount is None or volume is None:
        return UserError(message, hint=f"kubectl get rayjob {name} -n {namespace} -o yaml    # its volumes")
    reader = f"{name}-output"
    pod = {
        "spec": {
            "volumes": [volume],
            "containers": [
                {"name": "read", "image": _HELPER, "command": ["sleep", "3600"], "volumeMounts": [mount]},
            ],
        }
    }
    overrides = shlex.quote(json.dumps(pod, separators=(",", ":")))
    return UserError(
        message,
        hint=(
            f"kubectl run {reader} -n {namespace} --image={_HELPER} --restart=Never --overrides={overrides}",
            f"kubectl cp {namespace}/{reader}:{path} ./{name}",
            f"kubectl delete pod {reader} -n {namespace}",
        ),
    )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
