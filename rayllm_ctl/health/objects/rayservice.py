"""What a RayService says of itself: conditions, generations, the clusters it has made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import MODEL
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object

KIND = "RayService"
"""The kind that these rules read."""


@dataclass(frozen=True)
class Service:
    """A RayService, or a RayCluster that is a service. `active` and `pending` are names of RayClusters, or empty.

    `kind`: of the object. A RayCluster is its own active one once all its pods have been ready.
    """

    item: Object
    name: str
    namespace: str
    generation: int
    observed: int
    created: datetime | None
    deleted: datetime | None
    finalizers: tuple[str, ...]
    active: str
    pending: str
    endpoints: int
    model: str
    kind: str = KIND

    @property
    def subject(self) -> str:
        return f"{self.kind.lower()}/{self.name}"

    @property
    def touched(self) -> bool:
        """Whether the operator has ever written a status."""
        return bool(fields.mapping(self.item, "status"))

    @property
    def ready(self) -> Mapping[str, Any]:
        """The condition Ready. True only means more than zero endpoints."""
        return fields.condition(self.item, "Ready")

    @property
    def upgrading(self) -> bool:
        return bool(self.active and self.pending) or (
            fields.condition(self.item, "UpgradeInProgress").get("status") == "True"
        )

    @property
    def suspended(self) -> bool:
        """Suspended, or about to be."""
        return kuberay.is_suspended(self.item) or any(
            fields.condition(self.item, type_).get("status") == "True" for type_ in ("Suspended", "Suspending")
        )

    def applications(self, which: str) -> Mapping[str, Any]:
        """The operator's last copy of Serve's applications, of `activeServiceStatus` or `pendingServiceStatus`.

        The active one is blank during an upgrade to a new cluster: no outage.
        """
        return fields.mapping(self.item, "status", which, "applicationStatuses")


def read_service(item: Object) -> Service:
    """A RayService object as far as the rules ask for it."""
    return Service(
        item=item,
        name=fields.name(item),
        namespace=fields.namespace(item),
        generation=fields.integer(item, "metadata", "generation"),
        observed=fields.integer(item, "status", "observedGeneration"),
        created=fields.created(item),
        deleted=fields.deleted(item),
        finalizers=fields.words(item, "metadata", "finalizers"),
        active=fields.text(item, "status", "activeServiceStatus", "rayClusterName"),
        pending=fields.text(item, "status", "pendingServiceStatus", "rayClusterName"),
        endpoints=fields.integer(item, "status", "numServeEndpoints"),
        model=fields.annotation(item, MODEL),
    )
