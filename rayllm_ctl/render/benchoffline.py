"""The Job that measures an engine without a server, in a pod like that of a replica."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rayllm_ctl.loadtest.__main__ import MARK
from rayllm_ctl.model.bench.offline import OfflineLoad
from rayllm_ctl.render.bench import job_metadata
from rayllm_ctl.render.manifests import Manifest
from rayllm_ctl.render.templating import fill

_OF_A_SERVER = ("name", "command", "args", "ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - of the pod


def render_offline(
    name: str,
    namespace: str,
    service: str,
    pod: Mapping[str, Any],
    model_source: str,
    arguments: Sequence[str],
    load: OfflineLoad,
) -> Manifest:
    """The Job. pod: the spec of a pod of the service's replica, of which the first container runs the engine."""
    values: dict[str, Any] = {
        **job_metadata(name, namespace, service),
        "mark": MARK,
        "model_source": model_source,
        "arguments": arguments,
        "load": load,
    }
    job: Manifest = fill("bench/offline.yaml.j2", values)
    template = job["spec"]["template"]
    (command,) = template["spec"]["containers"]
    box = {key: value for key, value in pod["containers"][0].items() if key not in _OF_A_SERVER}
    mounts, volumes = list(box.get("volumeMounts") or ()), list(pod.get("volumes") or ())
    if not any(mount["mountPath"] == _SHARED_MEMORY for mount in mounts):
        # KubeRay gives Ray's pods one; the engine's processes talk through it.
        mounts.append({"name": "shared-memory", "mountPath": _SHARED_MEMORY})
        volumes.append({"name": "shared-memory", "emptyDir": {"medium": "Memory"}})
    template["spec"] = {
        **{key: value for key, value in pod.items() if key != "terminationGracePeriodSeconds"},
        "restartPolicy": "Never",
        "containers": [{**command, **box, "volumeMounts": mounts}],
        "volumes": volumes,
    }
    return job
