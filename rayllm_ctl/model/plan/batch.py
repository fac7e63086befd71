"""The plan of a batch job: the plan of its engines, and the other values of its manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.deployment import Autoscaler, Runtime, WorkerGroup
from rayllm_ctl.model.plan.plan import Band, Plan
from rayllm_ctl.model.plan.pods import PodTemplate
from rayllm_ctl.model.plan.storage import ModelStoragePlan
from rayllm_ctl.model.spec.batch import Concurrency
from rayllm_ctl.model.spec.patches import Patch
from rayllm_ctl.model.spec.pod_options import Pods
from rayllm_ctl.model.spec.ray_options import RayOptions
from rayllm_ctl.model.spec.security import PodSecurity
from rayllm_ctl.model.spec.service import Volume
from rayllm_ctl.model.text.json_form import OMIT_NONE, json_key


@dataclass(frozen=True)
class BatchEstimate:
    """What `rows` take with all replicas at work: seconds from submit to the end, and USD. assumption: in words.

    cost: None if no price is known.
    """

    rows: int
    seconds: Band
    assumption: str
    cost: Band | None = field(default=None, metadata=json_key("costUsd"))


@dataclass(frozen=True)
class BatchDeployment:
    """All that the manifests say. deadline and keep_after are seconds.

    settings: what the job's driver is told (settings.json). cluster: the RayCluster that the job runs on, None for one
    of its own, which head, worker, autoscaler, volumes and retries describe. mounted_code: whether the pods mount the
    driver's code. suspend: whether the RayJob waits, without pods, until this is changed.
    """

    name: str
    namespace: str | None
    runtime: Runtime
    model_id: str
    settings: Mapping[str, Any]
    cluster: str | None
    head: PodTemplate
    head_cpu: str
    head_memory: str
    worker: WorkerGroup
    autoscaler: Autoscaler
    ray: RayOptions
    volumes: tuple[Volume, ...]
    mounted_code: bool
    retries: int
    deadline: int | None = field(metadata=json_key("deadlineSeconds"))
    keep_after: int = field(metadata=json_key("keepAfterSeconds"))
    pod_options: Pods
    pod_security: PodSecurity
    patches: tuple[Patch, ...]
    suspend: bool
    storage: ModelStoragePlan | None = field(default=None, metadata=OMIT_NONE)


@dataclass(frozen=True)
class BatchPlan:
    """The answer to one BatchJob. plan: that of one replica of its engine, with the model and the hardware.

    batch_size and batches: rows that a replica is handed at a time, and how many such it works on at once.
    estimate: None if the number of rows or the speed is not known; estimate_note says which.
    deployment: set if the plan runs.
    """

    plan: Plan
    concurrency: Concurrency
    batch_size: int = 0
    batches: int = 0
    estimate: BatchEstimate | None = field(default=None, metadata=OMIT_NONE)
    estimate_note: str = ""
    deployment: BatchDeployment | None = field(default=None, metadata=OMIT_NONE)

    @property
    def runs(self) -> bool:
        return self.deployment is not None
