"""Claims that are created with a service and exist already: they may grow, and never shrink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.preflight.storage import read_storage
from rayllm_ctl.health.storage.claims import grows, request_of
from rayllm_ctl.health.storage.uses import claim_uses
from rayllm_ctl.model.observed.storage_facts import StorageFacts

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

_CLAIM = "PersistentVolumeClaim"


def read_facts(cluster: Cluster, manifests: Sequence[Mapping[str, Any]], namespace: str) -> StorageFacts:
    """What the cluster shows of the claims of `manifests`; without a request if there are none."""
    uses = claim_uses(manifests, None)
    return read_storage(cluster, namespace, uses) if uses else StorageFacts(namespace)


def with_live_claims(manifests: Sequence[Mapping[str, Any]], facts: StorageFacts) -> tuple[dict[str, Any], ...]:
    """`manifests` with the sizes that claims have in the cluster, except for those that can grow to the planned size.

    The API server rejects a smaller size, and one derived from a plan is smaller for another model or another release.
    """
    return tuple(_fitted(item, facts) if item["kind"] == _CLAIM else dict(item) for item in manifests)


def _fitted(manifest: Mapping[str, Any], facts: StorageFacts) -> dict[str, Any]:
    live = facts.claims.get(manifest["metadata"]["name"])
    if live is None or grows(manifest, live, facts) or not request_of(live):
        return dict(manifest)
    spec = manifest["spec"]
    requests = {**spec["resources"]["requests"], "storage": request_of(live)}
    return {**manifest, "spec": {**spec, "resources": {**spec["resources"], "requests": requests}}}
