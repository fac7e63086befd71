"""Which objects KubeRay made for a RayService, by the names and labels that it gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]{5}"
"""What KubeRay appends to a RayService's name for its RayCluster (k8s.io/apimachinery/pkg/util/rand)."""


@dataclass(frozen=True)
class OwnedResources:
    """A RayService (None once it is gone) and the RayClusters that exist for it."""

    name: str
    clusters: tuple[dict[str, Any], ...]
    service: Mapping[str, Any] | None

    @property
    def cluster_names(self) -> tuple[str, ...]:
        """The RayClusters that exist, and those that the status still names."""
        status = (self.service or {}).get("status") or {}
        parts = (status.get(key) or {} for key in ("activeServiceStatus", "pendingServiceStatus"))
        named = {part["rayClusterName"] for part in parts if part.get("rayClusterName")}
        return tuple(sorted(named | {item["metadata"]["name"] for item in self.clusters}))

    @property
    def pod_selector(self) -> str:
        """The label selector of its pods and of its RayClusters' services; empty while there is no RayCluster."""
        return f"ray.io/cluster in ({','.join(self.cluster_names)})" if self.cluster_names else ""

    def owns_pod(self, pod: Mapping[str, Any]) -> bool:
        """Whether a pod runs, or ends, for this service.

        Pods outlive their RayCluster and carry no label of the RayService. Of a RayCluster that is gone the name must
        do, and only for pods that are being deleted: a RayCluster of somebody else's may happen to have such a name.
        """
        ray_cluster = str((pod["metadata"].get("labels") or {}).get("ray.io/cluster", ""))
        if ray_cluster in self.cluster_names:
            return True
        return "deletionTimestamp" in pod["metadata"] and bool(self._gone.fullmatch(ray_cluster))

    def concerns(self, name: str) -> bool:
        """Whether an event about an object called `name` is about this service. Events outlive what they are about."""
        if name in (self.name, *self.cluster_names):
            return True
        if re.fullmatch(rf"{re.escape(self.name)}-(head-svc|serve-svc|gateway|httproute)", name):
            return True
        return bool(re.match(rf"{self._gone.pattern}(-|$)", name))

    @property
    def _gone(self) -> re.Pattern[str]:
        return re.compile(rf"{re.escape(self.name)}-{_SUFFIX}")
