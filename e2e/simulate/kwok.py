"""What KWOK does on simulated nodes: they become ready, their pods run at once and end when they are deleted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.simulate.shapes import MARK

# What KWOK needs in its environment: its streaming lists do not get along with some API servers.
ENVIRONMENT: Final = {"KUBE_FEATURE_WatchListClient": "false"}

_LEASE_SECONDS = 40
_START_MILLISECONDS = 500

_READY_NODE = """\
{{ $now := Now }}
{{ $since := or .metadata.creationTimestamp $now }}
phase: Running
conditions:
{{ range NodeConditions }}
- type: {{ .type | Quote }}
  status: {{ .status | Quote }}
  reason: {{ .reason | Quote }}
  message: {{ .message | Quote }}
  lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $since | Quote }}
{{ end }}
addresses:
- type: InternalIP
  address: {{ NodeIP | Quote }}
- type: Hostname
  address: {{ .metadata.name | Quote }}
nodeInfo:
  architecture: amd64
  operatingSystem: linux
  osImage: simulated
  kernelVersion: simulated
  kubeletVersion: {{ printf "kwok-%s" Version | Quote }}
  kubeProxyVersion: ""
  containerRuntimeVersion: simulated://1
  machineID: ""
  systemUUID: ""
  bootID: ""
"""

_RUNNING_POD = """\
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
conditions:
- {type: PodReadyToStartContainers, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  restartCount: 0
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: true
  started: true
  restartCount: 0
  state:
    running:
      startedAt: {{ $now | Quote }}
{{ end }}
{{ with NodeIPsWith .spec.nodeName }}
hostIP: {{ index . 0 | Quote }}
{{ end }}
{{ with PodIPsWith .spec.nodeName false .metadata.uid .metadata.name .metadata.namespace }}
podIP: {{ index . 0 | Quote }}
podIPs:
- ip: {{ index . 0 | Quote }}
{{ end }}
"""

_FINISHED_POD = """\
{{ $now := Now }}
phase: Succeeded
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
"""

_NOT_DELETED = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}


def kwok_config() -> str:
    """KWOK's configuration file: its own stages replace the built-in ones, which it would only apply without a file."""
    stages = [
        _stage("node-ready", "Node", [_not_true(".status.conditions")], {"statusTemplate": _READY_NODE}),
        _stage(
            "pod-running",
            "Pod",
            [_NOT_DELETED, {"key": ".status.phase", "operator": "In", "values": ["Pending"]}],
            {"statusTemplate": _RUNNING_POD},
            delay=_START_MILLISECONDS,
        ),
        _stage(
            "job-pod-finished",
            "Pod",
            [
                _NOT_DELETED,
                {"key": ".status.phase", "operator": "In", "values": ["Running"]},
                {"key": ".metadata.ownerReferences.[].kind", "operator": "In", "values": ["Job"]},
            ],
            {"statusTemplate": _FINISHED_POD},
        ),
        _stage("pod-deleted", "Pod", [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}], {"delete": True}),
    ]
    return yaml.safe_dump_all(stages, sort_keys=False)


def kwok_arguments(*, kubeconfig: Path, config: Path, node_address: str, pod_range: str) -> Sequence[str]:
    """KWOK's command line (without its name): only nodes with our annotation; pods get addresses of `pod_range`."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={config}",
        f"--manage-nodes-with-annotation-selector={MARK}=fake",
        f"--cidr={pod_range}",
        f"--node-ip={node_address}",
        f"--node-lease-duration-seconds={_LEASE_SECONDS}",
    ]


def _not_true(conditions: str) -> dict[str, Any]:
    ready = f'{conditions}.[] | select( .type == "Ready" ) | .status'
    return {"key": ready, "operator": "NotIn", "values": ["True"]}


def _stage(name: str, kind: str, match: list[dict[str, Any]], then: dict[str, Any], delay: int = 0) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": match},
        "next": then,
    }
    if delay:
        spec["delay"] = {"durationMilliseconds": delay}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}
