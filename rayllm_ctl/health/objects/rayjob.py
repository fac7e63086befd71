"""What a RayJob says of itself: KubeRay's status, and how many tries it has.

Fields and states: KubeRay v1.6.2, ray-operator/apis/ray/v1/rayjob_types.go.
"""

from __future__ import annotations

from datetime import datetime

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object

KIND = "RayJob"
"""The kind that these rules read."""

ENDED = frozenset({"Complete", "Failed", "ValidationFailed"})
"""Values of jobDeploymentStatus after which KubeRay does nothing more for a RayJob."""


@dataclass(frozen=True)
class RayJob:
    """A RayJob. `deployment`: its jobDeploymentStatus; `job`: Ray's own status of the driver (PENDING, RUNNING, ...).

    `running`: when Ray started the driver. `failed`: tries that have failed; `retries`: how many more than one are
    allowed. `shared`: it runs on a RayCluster that is not its own.
    """

    item: Object
    name: str
    deployment: str
    job: str
    reason: str
    message: str
    cluster: str
    failed: int
    retries: int
    started: datetime | None
    ended: datetime | None
    running: datetime | None
    suspended: bool
    shared: bool

    @property
    def subject(self) -> str:
        return f"rayjob/{self.name}"

    @property
    def over(self) -> bool:
        """Whether KubeRay is done with it."""
        return self.deployment in ENDED

    @property
    def status(self) -> str:
        """Its status as evidence."""
        parts = (("jobDeploymentStatus", self.deployment), ("jobStatus", self.job), ("reason", self.reason))
        return f"{self.subject}: " + ", ".join(f"{key} {value}" for key, value in parts if value)


def read_rayjob(item: Object) -> RayJob:
    """A RayJob object as far as the rules ask for it."""
    status = fields.mapping(item, "status")
    deployment = fields.text(status, "jobDeploymentStatus")
    return RayJob(
        item=item,
        name=fields.name(item),
        deployment=deployment,
        job=fields.text(status, "jobStatus"),
        reason=fields.text(status, "reason"),
        message=fields.text(status, "message"),
        cluster=fields.text(status, "rayClusterName"),
        failed=fields.integer(status, "failed"),
        retries=fields.integer(item, "spec", "backoffLimit"),
        started=fields.when(status, "startTime"),
        ended=fields.when(status, "endTime") if deployment in ENDED else None,
        running=fields.when(status, "rayJobInfo", "startTime"),
        suspended=deployment in ("Suspending", "Suspended")
        or (fields.flag(item, "spec", "suspend") and not deployment),
        shared=bool(fields.mapping(item, "spec", "clusterSelector")),
    )
