"""The objects of a load test in the cluster: a Job beside the service, and a ConfigMap with its code and settings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rayllm_ctl.errors import UsageError
from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.labels import BENCH_APPLICATION, COMPONENT, INSTANCE, MANAGED_BY, MANAGER, NAME
from rayllm_ctl.model.plan.deployment import CodeVolume
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.render.batch import MAX_CONFIG_MAP_BYTES
from rayllm_ctl.render.manifests import Manifest
from rayllm_ctl.render.templating import fill

PACKAGE = Path(__file__).parents[1] / "loadtest"
MOUNT_PATH = "/opt/rayllm-bench"
_SETTINGS = "settings.json"


@dataclass(frozen=True)
class BenchPod:
    """What the pod of a load test takes from the head of the service: its image, and what it may do."""

    image: str
    image_pull_secrets: Sequence[Mapping[str, Any]] = ()
    pod_security_context: Mapping[str, Any] | None = None
    security_context: Mapping[str, Any] | None = None


def render_bench(
    name: str, service: str, namespace: str, pod: BenchPod, settings: Mapping[str, Any], key: SecretKey | None
) -> list[Manifest]:
    """A ConfigMap and the Job. settings: of loadtest, as JSON data. Raises UsageError if they are too large."""
    text = json.dumps(settings, ensure_ascii=False)
    if len(text.encode()) > MAX_CONFIG_MAP_BYTES - 256 * 1024:  # the code, and the rest of the object
        raise UsageError(
            f"the prompts take {len(text.encode()) // 1024:,} KiB, more than a ConfigMap can hold",
            hint=("use a smaller --prompts file", "--local    # sends the load from this machine"),
        )
    texts = {**_code(), _SETTINGS: text}
    keys = {path.replace("/", "."): path for path in texts}
    code = CodeVolume(name, MOUNT_PATH, {key_: texts[path] for key_, path in keys.items()}, keys)
    values: dict[str, Any] = {
        **job_metadata(name, namespace, service),
        "code": code,
        "path": MOUNT_PATH,
        "settings_file": f"{MOUNT_PATH}/{_SETTINGS}",
        "image": pod.image,
        "image_pull_secrets": pod.image_pull_secrets,
        "pod_security_context": pod.pod_security_context,
        "security_context": pod.security_context,
        "key": key,
    }
    return [fill("code.yaml.j2", values), fill("bench/job.yaml.j2", values)]


def job_metadata(name: str, namespace: str, service: str) -> dict[str, Any]:
    """What the templates of the Jobs know them by."""
    labels = {NAME: BENCH_APPLICATION, INSTANCE: service, COMPONENT: "bench", MANAGED_BY: MANAGER}
    return {"name": name, "namespace": namespace, "labels": labels}


@cache
def _code() -> Mapping[str, str]:
    """The load generator's files. The package around it is an empty one, whatever the image has under its name."""
    root = PACKAGE.parents[1]
    files = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.glob("*.py"))
    }
    return {f"{PACKAGE.parent.name}/__init__.py": "", **files}
