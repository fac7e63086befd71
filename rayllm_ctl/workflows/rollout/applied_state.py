"""The applied state of a service, used by commands that change it without its spec file."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.api.permissions import explained
from rayllm_ctl.cluster.apply.inventory import Inventory, inventory
from rayllm_ctl.cluster.apply.managed_fields import applied_manifest, managers, was_applied
from rayllm_ctl.cluster.apply.revisions import revisions
from rayllm_ctl.cluster.lookup.kinds import learn_other_kinds
from rayllm_ctl.cluster.lookup.services import not_found
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.model.workload import Rights
from rayllm_ctl.workflows.observe.wait import START_SECONDS
from rayllm_ctl.workflows.services import LiveService, find_service

if TYPE_CHECKING:
    from rayllm_ctl.cluster import Cluster


def live_service(cluster: Cluster, name: str, namespace: str, rights: Rights) -> LiveService:
    """The service `name`; NotFoundError, with the nearest name, if there is none. rights: what the command needs."""
    with explained(cluster, namespace, rights):
        kind, found = find_service(cluster, name, namespace)
        if found is None:
            raise not_found(cluster, kind, name, namespace)
        return LiveService(kind, found)


def known_revisions(cluster: Cluster, service: LiveService) -> list[Revision]:
    """The history of a service, the oldest first; empty if not permitted: the object itself shows the applied state."""
    try:
        return revisions(cluster, service.name, service.namespace)
    except ForbiddenError:
        return []


def own_manifest(service: LiveService, known: Sequence[Revision]) -> dict[str, Any]:
    """The manifest that rayllm-ctl applied for a service: from its history, else from the object.

    Raises UserError if another client applied the service.
    """
    own = _manifest(service.item, _last(known))
    if own is None:
        others = managers(service.item, "spec")
        by = f" but by {', '.join(others)}" if others else ""
        raise UserError(
            f"{service.label} was not applied by rayllm-ctl{by}",
            hint="change its manifest at its source",
        )
    return own


def applied_manifests(
    cluster: Cluster, service: LiveService, known: Sequence[Revision]
) -> tuple[list[dict[str, Any]], Inventory]:
    """The manifests that rayllm-ctl applied for a service, its own first, and the inventory that they are from.

    It has the kinds that the history names; all kinds if the newest revision is not the applied state.
    ConfigMaps of earlier specs, which deploy leaves in place, are left out. Raises UserError as `own_manifest` does.
    """
    last, own = _last(known), own_manifest(service, known)
    used = json.dumps(own)
    manifests = [own]
    learn_other_kinds(cluster, [service.item])
    only = _recorded_kinds(service, known)
    listed = inventory(cluster, service.name, service.namespace, (own["kind"],), only=only)
    for item in listed.objects:
        if item["kind"] == "ConfigMap" and json.dumps(item["metadata"]["name"]) not in used:
            continue
        manifest = _manifest(item, last)
        if manifest is not None:
            manifests.append(manifest)
    return manifests, listed


def start_seconds(known: Sequence[Revision]) -> float:
    """The start-up limit of the last plan of a service in seconds, from its history."""
    return next((revision.start_seconds for revision in reversed(known) if revision.start_seconds), START_SECONDS)


def _recorded_kinds(service: LiveService, known: Sequence[Revision]) -> Collection[str] | None:
    """The kinds of which rayllm-ctl may have applied objects for a service; None: any of them."""
    recorded = _last(known).get((service.kind.name, service.name))
    if recorded is None or not was_applied(service.item, recorded):
        return None
    return {str(item["kind"]) for one in known for item in one.manifests}


def _last(known: Sequence[Revision]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The manifests of the newest revision by kind and name."""
    return {
        (str(manifest["kind"]), str(manifest["metadata"]["name"])): manifest
        for manifest in (known[-1].manifests if known else ())
    }


def _manifest(item: dict[str, Any], last: Mapping[tuple[str, str], Mapping[str, Any]]) -> dict[str, Any] | None:
    recorded = last.get((item["kind"], item["metadata"]["name"]))
    if recorded is not None and was_applied(item, recorded):
        return dict(recorded)
    return applied_manifest(item)
