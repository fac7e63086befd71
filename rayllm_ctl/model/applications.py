"""What is deployed for a Serve configuration of the user's own: its text, the Ray cluster around it, and its code."""

from __future__ import annotations

from collections.abc import Mapping

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.deployment import Autoscaler, Entrance, PodTemplate, Runtime, WorkerGroup
from rayllm_ctl.model.rayoptions import RayOptions, Upgrade
from rayllm_ctl.model.security import PodSecurity
from rayllm_ctl.model.serveoptions import ServeProxies
from rayllm_ctl.model.service import Volume


@dataclass(frozen=True)
class CodeVolume:
    """The user's code: a ConfigMap with `data`, mounted at `mount_path`.

    paths: keys of it and their paths below the mount path, where they differ; empty where every key is a path.
    """

    config_map: str
    mount_path: str
    data: Mapping[str, str]
    paths: Mapping[str, str]


@dataclass(frozen=True)
class Applications:
    """A RayService for a Serve configuration. serve_config: its text. head_cpu, head_memory: quantities.

    explanation: the groups of workers and why, a line each, for the user.
    """

    name: str
    namespace: str | None
    runtime: Runtime
    serve_config: str
    proxies: ServeProxies
    head: PodTemplate
    head_cpu: str
    head_memory: str
    worker_groups: tuple[WorkerGroup, ...]
    autoscaler: Autoscaler
    ray: RayOptions
    upgrade: Upgrade
    pod_security: PodSecurity
    volumes: tuple[Volume, ...]
    exposure: Entrance
    code: CodeVolume | None
    explanation: tuple[str, ...]
