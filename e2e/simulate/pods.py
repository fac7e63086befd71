"""The pods of Ray clusters, as the simulation sees them: who is where, with how many CPUs and GPUs."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

CLUSTER_LABEL: Final = "ray.io/cluster"
NODE_TYPE_LABEL: Final = "ray.io/node-type"
# JSON with the settings of settings.py, on the head's pod template.
SETTINGS_ANNOTATION: Final = "rayllm.local/simulate"

_RAY_CPUS = re.compile(r"--num-cpus[= ]['\"]?([0-9.]+)")
_RAY_RESOURCES = re.compile(r"--resources[= ]'({.*?})'")
_QUANTITY = re.compile(r"([0-9.]+)(m|[kMGTPE]i?)?")
_UNITS = {"m": 1e-3, **{f"{unit}i": 1024.0**power for power, unit in enumerate("kMGTPE", start=1)}}
_UNITS |= {"Ki": 1024.0, **{unit: 1000.0**power for power, unit in enumerate("kMGTPE", start=1)}}


@dataclass(frozen=True)
class RayPod:
    """One pod of a Ray cluster.

    `cpus`, `gpus` and `custom` are what Ray offers to tasks there, `accelerator` is Ray's name of the GPUs, and `ready`
    says whether the pod is ready and not being deleted.
    """

    namespace: str
    name: str
    uid: str
    cluster: str
    head: bool
    address: str
    ready: bool
    cpus: float
    gpus: float
    accelerator: str | None = None
    settings: str = ""
    custom: Mapping[str, float] = field(default_factory=dict)

    @property
    def resources(self) -> dict[str, float]:
        """Ray's resources of this node."""
        found = {**self.custom, "CPU": self.cpus}
        if self.gpus:
            found["GPU"] = self.gpus
            if self.accelerator:
                found[f"accelerator_type:{self.accelerator}"] = 1.0
        return found


def ray_pod(manifest: Mapping[str, Any], accelerators: Mapping[str, str]) -> RayPod | None:
    """The Ray pod of a Pod object, or None for a pod of something else.

    `accelerators` maps names of nodes to Ray's accelerator types: on a real node Ray asks the driver.
    """
    metadata, spec, status = manifest["metadata"], manifest.get("spec", {}), manifest.get("status", {})
    labels = metadata.get("labels", {})
    cluster = labels.get(CLUSTER_LABEL)
    if not cluster:
        return None
    container = spec["containers"][0]
    conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
    return RayPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        cluster=cluster,
        head=labels.get(NODE_TYPE_LABEL) == "head",
        address=status.get("podIP", ""),
        ready=conditions.get("Ready") == "True" and "deletionTimestamp" not in metadata,
        cpus=_cpus(container),
        gpus=_gpus(container),
        accelerator=accelerators.get(spec.get("nodeName", "")),
        settings=metadata.get("annotations", {}).get(SETTINGS_ANNOTATION, ""),
        custom=_custom(container),
    )


def quantity(text: str) -> float:
    """The number of a Kubernetes quantity such as `500m`, `4` or `16Gi`. ValueError for anything else."""
    matched = _QUANTITY.fullmatch(text)
    if not matched:
        raise ValueError(f"not a quantity: {text!r}")
    return float(matched[1]) * _UNITS.get(matched[2] or "", 1.0)


def _cpus(container: Mapping[str, Any]) -> float:
    """As KubeRay decides: num-cpus of the start command, else the limit, else the request, in whole CPUs."""
    if given := _RAY_CPUS.search(_command(container)):
        return float(given[1])
    resources = container.get("resources", {})
    for kind in ("limits", "requests"):
        if "cpu" in resources.get(kind, {}):
            return float(math.ceil(quantity(str(resources[kind]["cpu"]))))
    return 1.0


def _custom(container: Mapping[str, Any]) -> dict[str, float]:
    """The custom resources of the start command; the type of an accelerator is that of its node."""
    found = _RAY_RESOURCES.search(_command(container))
    given = json.loads(found[1]) if found else {}
    return {name: float(amount) for name, amount in given.items() if not name.startswith("accelerator_type:")}


def _command(container: Mapping[str, Any]) -> str:
    return " ".join([*container.get("command", []), *container.get("args", [])])


def _gpus(container: Mapping[str, Any]) -> float:
    """As KubeRay decides: the first limit whose name ends in `gpu`."""
    limits = container.get("resources", {}).get("limits", {})
    return next((quantity(str(value)) for name, value in limits.items() if name.endswith("gpu")), 0.0)


@dataclass
class PodTable:
    """All Ray pods now, for several threads. Addresses are reused: the newest pod with an address has it."""

    _pods: dict[str, RayPod] = field(default_factory=dict)
    _owners: dict[str, str] = field(default_factory=dict)
    _clusters: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, pod: RayPod) -> None:
        """Add a pod or its new state."""
        with self._lock:
            self._pods[pod.uid] = pod
            self._clusters.setdefault((pod.namespace, pod.cluster), set()).add(pod.uid)
            if pod.address:
                self._owners[pod.address] = pod.uid

    def remove(self, uid: str) -> None:
        """Forget a pod, if it is known."""
        with self._lock:
            pod = self._pods.pop(uid, None)
            if pod is None:
                return
            members = self._clusters[(pod.namespace, pod.cluster)]
            members.discard(uid)
            if not members:
                del self._clusters[(pod.namespace, pod.cluster)]
            if self._owners.get(pod.address) == uid:
                del self._owners[pod.address]

    def keep_only(self, uids: set[str]) -> None:
        """Forget all other pods."""
        with self._lock:
            gone = [uid for uid in self._pods if uid not in uids]
        for uid in gone:
            self.remove(uid)

    def at(self, address: str) -> RayPod | None:
        """The pod that has an address."""
        with self._lock:
            return self._pods.get(self._owners.get(address, ""))

    def members(self, namespace: str, cluster: str) -> Sequence[RayPod]:
        """A cluster's pods, by name."""
        with self._lock:
            uids = self._clusters.get((namespace, cluster), set())
            return sorted((self._pods[uid] for uid in uids), key=lambda pod: pod.name)
