"""A RayCluster with vLLM's own server as the rules see a service: it is its own and only Ray cluster."""

from __future__ import annotations

import dataclasses
from functools import cached_property

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.objects.cluster_spec import ClusterSpec, read_cluster_spec
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.objects.rayservice import Service, read_service
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.observed.serve_state import ServeState


class ClusterContext(ServiceContext):
    """One RayCluster that is a service, in a Snapshot."""

    kind = kuberay.RAY_CLUSTER
    by_serve = False

    @property
    def serve_service(self) -> str:
        return kuberay.openai_service(self.name)

    @cached_property
    def service(self) -> Service | None:
        if not self.ray_clusters:
            return None
        item = self.ray_clusters[0]
        # The condition latches: all pods were ready once, the servers among them.
        served = fields.condition(item, "RayClusterProvisioned").get("status") == "True"
        active, pending = (self.name, "") if served else ("", self.name)
        return dataclasses.replace(read_service(item), kind=self.kind, active=active, pending=pending)

    @cached_property
    def cluster_names(self) -> frozenset[str]:
        return frozenset({self.name})

    @cached_property
    def ray_clusters(self) -> tuple[Object, ...]:
        return tuple(
            item
            for item in self.of_kind(kuberay.RAY_CLUSTER)
            if fields.name(item) == self.name and not fields.label(item, kuberay.ORIGIN_KIND)
        )

    @cached_property
    def retired(self) -> tuple[RayCluster, ...]:
        return ()

    @property
    def endpoints(self) -> int:
        """Addresses behind the Service; servers that are ready where no EndpointSlice was collected."""
        return super().endpoints if self.slices else sum(len(cluster.ready_servers) for cluster in self.clusters)

    @cached_property
    def spec(self) -> ClusterSpec:
        return read_cluster_spec(fields.mapping(self.service.item, "spec") if self.service else {})

    def _serve(self, name: str, role: str) -> ServeState:  # noqa: ARG002
        return ServeState(error="")
