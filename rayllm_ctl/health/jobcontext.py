"""A batch job as the rules see it: its RayJob, the RayCluster of this try, the submitter's pods, the driver's log."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.objects import rayjob
from rayllm_ctl.health.objects.cluster_spec import ClusterSpec, read_cluster_spec
from rayllm_ctl.health.objects.pod import Pod, read_pod
from rayllm_ctl.health.objects.raycluster import RayCluster
from rayllm_ctl.health.objects.rayjob import RayJob, read_rayjob
from rayllm_ctl.health.objects.rayservice import Service, read_service
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.kube.labels import BATCH
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.batch_progress import DRIVER_MARK, DriverReport, read_log
from rayllm_ctl.model.observed.batch_status import SETTINGS
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.observed.serve_state import ServeState


class JobContext(ServiceContext):
    """One batch job in a Snapshot."""

    kind = rayjob.KIND
    by_serve = False
    of_batch = True
    deploy = "rayllm-ctl batch submit …"

    @cached_property
    def job(self) -> RayJob | None:
        found = [item for item in self.of_kind(rayjob.KIND) if fields.name(item) == self.name]
        return read_rayjob(found[0]) if found else None

    @cached_property
    def service(self) -> Service | None:
        """The RayJob in the form that the rules about pods and the operator take."""
        if self.job is None:
            return None
        return dataclasses.replace(read_service(self.job.item), kind=self.kind, active="", pending=self.job.cluster)

    @cached_property
    def ray_clusters(self) -> tuple[Object, ...]:
        return tuple(
            item
            for item in self.of_kind(kuberay.RAY_CLUSTER)
            if fields.label(item, kuberay.ORIGIN_NAME) == self.name
            and fields.label(item, kuberay.ORIGIN_KIND) == self.kind
        )

    @cached_property
    def cluster_names(self) -> frozenset[str]:
        status = {self.job.cluster} - {""} if self.job else set()
        labels = {
            fields.label(item, kuberay.CLUSTER)
            for item in self.of_kind("Pod")
            if fields.label(item, BATCH) == self.name
        }
        return frozenset({fields.name(item) for item in self.ray_clusters} | labels - {""} | status)

    @cached_property
    def clusters(self) -> tuple[RayCluster, ...]:
        """The RayCluster of this try; none before KubeRay has named it, nor once the job is over and it is gone."""
        if self.job is None or not self.job.cluster:
            return ()
        found = self._cluster(self.job.cluster, "pending")
        return () if self.job.over and found.item is None and not found.pods else (found,)

    @cached_property
    def submitters(self) -> tuple[Pod, ...]:
        """The pods of the Job that starts the driver and follows its log, the newest first: one for each try of it."""
        found = [read_pod(item) for item in self.of_kind("Pod") if fields.label(item, kuberay.JOB_NAME) == self.name]
        return tuple(sorted(found, key=lambda pod: pod.created.timestamp() if pod.created else 0.0, reverse=True))

    @cached_property
    def log(self) -> str:
        """The end of the newest log of the driver."""
        # KubeRay deletes the submitter of a try that failed before it makes another.
        pods = [pod for pod in self.submitters if pod.deleted is None]
        found = [self.container_log(pod.name, box.name, current=True) for pod in pods for box in pod.containers]
        return next((text for text in found if DRIVER_MARK in text), next(filter(None, found), ""))

    @cached_property
    def report(self) -> DriverReport:
        """What the driver says. Of one that failed, KubeRay's message has the end of its log as well."""
        told = read_log(self.log)
        if self.job is None or told.result or told.failure:
            return told
        ended = read_log(self.job.message)
        return DriverReport(ended.progress or told.progress, ended.result, ended.failure)

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """What the driver was told; empty if that was not collected."""
        for item in self.of_kind("ConfigMap"):
            written = fields.text(fields.mapping(item, "data"), SETTINGS)
            try:
                found = json.loads(written) if written else None
            except ValueError:
                continue
            if isinstance(found, dict):
                return found
        return {}

    @property
    def too_many_errors(self) -> bool | None:
        """Whether more rows have an error than the job allows; None while that cannot be told."""
        result, job = self.report.result, self.job
        if result is None or job is None:
            return None
        if result.errors == 0:
            return False
        if result.max_errors is not None:
            return result.errors > result.max_errors
        allowed = fields.integer(self.settings, "job", "maxErrors", default=0)
        if self.settings:
            return result.errors > allowed
        return {"FAILED": True, "STOPPED": True, "SUCCEEDED": False}.get(job.job)

    @property
    def endpoints(self) -> int:
        return 0

    @cached_property
    def spec(self) -> ClusterSpec:
        return read_cluster_spec(cluster_spec(self.job.item) if self.job else {})

    def _serve(self, name: str, role: str) -> ServeState:  # noqa: ARG002
        return ServeState(error="")
