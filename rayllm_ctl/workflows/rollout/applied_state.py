"""The applied state of a service, used by commands that change it without its spec file."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rayllm_ctl.cluster.api.errors import ForbiddenError
from rayllm_ctl.cluster.apply.inventory import Inventory, inventory
from rayllm_ctl.cluster.apply.managed_fields import applied_manifest, managers, was_applied
from rayllm_ctl.cluster.apply.revisions import revisions
from rayllm_ctl.cluster.lookup.kinds import learn_other_kinds
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube.revisions import Revision
from rayllm_ctl.workflows.observe.wait import START_SECONDS
from rayllm_ctl.workflows.rollout.unrecorded import recorded_kinds, unrecorded_kinds
from rayllm_ctl.workflows.services import ServiceRef


def known_revisions(service: ServiceRef) -> list[Revision]:
    """The history of a service, the oldest first; empty if not permitted: the object itself shows the applied state."""
    try:
        return revisions(service.cluster, service.name, service.namespace)
    except ForbiddenError:
        return []


def own_manifest(service: ServiceRef, known: Sequence[Revision]) -> dict[str, Any]:
    """The manifest that rayllm-ctl applied for a service: from its history, else from the object.

    Raises UserError if another client applied the service.
    """
    own = _manifest(service.live, _last(known))
    if own is None:
        others = managers(service.live, "spec")
        by = f" but by {', '.join(others)}" if others else ""
        raise UserError(
            f"{service.label} was not applied by rayllm-ctl{by}",
            hint="change its manifest at its source",
        )
    return own


def applied_manifests(service: ServiceRef, known: Sequence[Revision]) -> tuple[list[dict[str, Any]], Inventory]:
    """The manifests that rayllm-ctl applied for a service, its own first, and the inventory that they are from.

    It has the kinds that the history names, and those that are known to be missing there; all kinds where the newest
    revision is not what is applied now.
    ConfigMaps of earlier specs, which deploy leaves in place, are left out. Raises UserError as `own_manifest` does.
    """
    cluster, last, own = service.cluster, _last(known), own_manifest(service, known)
    used = json.dumps(own)
    found = [own]
    learn_other_kinds(cluster, [service.live])
    only = _recorded_kinds(service, known)
    listed = inventory(cluster, service.name, service.namespace, (own["kind"],), only=only)
    for item in listed.objects:
        if item["kind"] == "ConfigMap" and json.dumps(item["metadata"]["name"]) not in used:
            continue
        manifest = _manifest(item, last)
        if manifest is not None:
            found.append(manifest)
    return found, listed


def start_seconds(known: Sequence[Revision]) -> float:
    """The start-up limit of the last plan of a service in seconds, from its history."""
    return next((one.start_seconds for one in reversed(known) if one.start_seconds), START_SECONDS)


def _recorded_kinds(service: ServiceRef, known: Sequence[Revision]) -> Collection[str] | None:
    """The kinds of which rayllm-ctl may have applied objects for a service; None: any of them."""
    recorded = _last(known).get((service.kind.name, service.name))
    if recorded is None or not was_applied(service.live, recorded):
        return None
    return recorded_kinds(known) | unrecorded_kinds(service.live)


def _last(known: Sequence[Revision]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The manifests of the newest revision by kind and name."""
    return {(str(one["kind"]), str(one["metadata"]["name"])): one for one in (known[-1].manifests if known else ())}


def _manifest(item: dict[str, Any], last: Mapping[tuple[str, str], Mapping[str, Any]]) -> dict[str, Any] | None:
    recorded = last.get((item["kind"], item["metadata"]["name"]))
    if recorded is not None and was_applied(item, recorded):
        return dict(recorded)
    return applied_manifest(item)
