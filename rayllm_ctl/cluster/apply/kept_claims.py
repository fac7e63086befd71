"""Claims that were created with a service, and stay when it is deleted: their data may take hours to download."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.model.events import Noted
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.kube.labels import INSTANCE, MANAGED_BY, MANAGER
from rayllm_ctl.model.kube.model_downloads import CACHE_VOLUME, MODEL_VOLUME, is_kept

_CLAIM = "PersistentVolumeClaim"


def kept_claims(cluster: Cluster, name: str, namespace: str, service: Mapping[str, Any] | None) -> Iterator[Noted]:
    """A note on each claim that was created with service `name`, and how to delete it.

    service: its object, if there is one: it tells whether there may be some.
    """
    if service is not None and not _stores_a_model(service):
        return
    try:
        claims = cluster.list(_CLAIM, namespace, label_selector=f"{MANAGED_BY}={MANAGER},{INSTANCE}={name}")
    except ForbiddenError as error:
        if service is not None:
            yield Noted(f"claims that were created for {name} are kept, and unknown: not permitted to {error.right}")
        return
    for claim in filter(is_kept, claims):
        own = claim["metadata"]["name"]
        yield Noted(f"persistentvolumeclaim/{own} is kept: kubectl delete pvc {own} -n {namespace}")


def _stores_a_model(service: Mapping[str, Any]) -> bool:
    spec = cluster_spec(service)
    templates = [part.get("template") or {} for part in (spec.get("headGroupSpec") or {}, *_groups(spec))]
    volumes = [volume for one in templates for volume in (one.get("spec") or {}).get("volumes") or ()]
    return any(volume["name"] in (MODEL_VOLUME, CACHE_VOLUME) for volume in volumes)


def _groups(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(spec.get("workerGroupSpecs") or ())
