"""Check the storage of models and caches before anything is applied."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.preflight.cluster import need_checks
from rayllm_ctl.cluster.preflight.storage import STORAGE_RIGHTS
from rayllm_ctl.cluster.preflight.versions import server_version
from rayllm_ctl.errors import UserError
from rayllm_ctl.health.objects.pod_needs import pod_templates
from rayllm_ctl.health.storage import storage_checks
from rayllm_ctl.health.storage.report import CATEGORY
from rayllm_ctl.health.storage.secrets import storage_secrets
from rayllm_ctl.health.storage.uses import claim_uses
from rayllm_ctl.model.events import Checked
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.storage_facts import StorageFacts
from rayllm_ctl.model.text.hint import Hint
from rayllm_ctl.model.workload import Right, Rights
from rayllm_ctl.workflows.rollout.model_storage.claims import read_facts, with_live_claims

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster

Manifests = Sequence[Mapping[str, Any]]

_IMAGE_VOLUMES = (1, 31)
_IMAGE_VOLUMES_ON = (1, 35)
"""Kubernetes' releases that have image volumes behind a feature gate, and by default
(kubernetes.io/docs/concepts/storage/volumes, "image")."""


def storage_rights(manifests: Manifests) -> Rights:
    """Rights to check the storage of `manifests`; none if they use none. All are optional."""
    claims = STORAGE_RIGHTS if claim_uses(manifests, None) else ()
    secrets = (Right("get", "Secret"),) if storage_secrets(manifests) else ()
    return Rights(display=(*claims, *secrets))


def require_storage(
    cluster: Cluster, manifests: Manifests, namespace: str, model_bytes: float | None
) -> Generator[Checked, None, tuple[dict[str, Any], ...]]:
    """Check the storage; the manifests, with claims as large as they are in the cluster.

    Raises UserError for the first finding that rules the service out.
    """
    facts = read_facts(cluster, manifests, namespace)
    for check in _checks(cluster, manifests, facts, model_bytes):
        if check.ok is False:
            raise UserError(f"{check.name} {check.detail}", hint=tuple(map(str, check.hints)))
        if check.ok is None:
            yield Checked(CATEGORY, None, f"{check.name} {check.detail}")
    return with_live_claims(manifests, facts)


def check_storage(cluster: Cluster, manifests: Manifests, namespace: str, model_bytes: float | None) -> Iterator[Check]:
    """All findings about the storage, for `check`."""
    yield from _checks(cluster, manifests, read_facts(cluster, manifests, namespace), model_bytes)


def _checks(cluster: Cluster, manifests: Manifests, facts: StorageFacts, model_bytes: float | None) -> Iterator[Check]:
    yield from storage_checks(claim_uses(manifests, model_bytes), facts)
    yield from _image_volume_check(cluster, manifests)
    secrets = storage_secrets(manifests)
    yield from (one for one in need_checks(cluster, facts.namespace, secrets, CATEGORY) if not one.ok)


def _image_volume_check(cluster: Cluster, manifests: Manifests) -> Iterator[Check]:
    """Whether the API server has image volumes; what the container runtime of the nodes supports is not seen."""
    templates = [one for manifest in manifests for one in pod_templates(manifest).values()]
    volumes = [volume for one in templates for volume in (one.get("spec") or {}).get("volumes") or ()]
    if not any("image" in volume for volume in volumes):
        return
    running = server_version(cluster)
    found = re.match(r"v?(\d+)\.(\d+)", running)
    version = (int(found[1]), int(found[2])) if found else None
    name, field = "image volume", Hint(remark="spec.storage.model: claim, mirror or objectStore in place of image")
    if version is None:
        yield Check(CATEGORY, name, None, f"whether Kubernetes {running} supports image volumes is unknown")
    elif version < _IMAGE_VOLUMES:
        detail = f"is not supported by Kubernetes {running} (1.35 or later required; spec.storage.model.image)"
        yield Check(CATEGORY, name, False, detail, (field,))
    elif version < _IMAGE_VOLUMES_ON:
        detail = f"requires the feature gate ImageVolume of the API server and the nodes before 1.35; this is {running}"
        yield Check(CATEGORY, name, None, detail, (field,))
