"""What was applied for a service and is in no revision of its history, as that could not be written."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rayllm_ctl.cluster.apply.inventory import Inventory
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.events import Noted
from rayllm_ctl.model.kube.labels import HISTORIAN, UNRECORDED
from rayllm_ctl.model.kube.revisions import Revision

if TYPE_CHECKING:
    from rayllm_ctl.workflows.services import ServiceRef


def recorded_kinds(known: Sequence[Revision]) -> set[str]:
    """The kinds of the objects that a history names."""
    return {str(item["kind"]) for one in known for item in one.manifests}


def unrecorded_kinds(service: Mapping[str, Any]) -> frozenset[str]:
    """The kinds with which `mark_unrecorded` has annotated the object of a service."""
    text = str((service["metadata"].get("annotations") or {}).get(UNRECORDED) or "")
    return frozenset(filter(None, text.split(",")))


def mark_unrecorded(
    service: ServiceRef, manifests: Sequence[Mapping[str, Any]], known: Sequence[Revision] | None
) -> Iterator[Noted]:
    """Annotate the object of a service with the kinds of `manifests` that its history does not name.

    Without a revision nothing else tells a later command to look for them. known: the history; None: it is not known.
    Where it is empty all kinds are looked for anyway.
    """
    before = unrecorded_kinds(service.item) if service.item is not None else frozenset()
    found = {str(item["kind"]) for item in manifests} - {service.kind.name} - recorded_kinds(known or ())
    if found <= before or (known is not None and not known):
        return
    try:
        _annotate(service, before | found)
    except UserError as error:
        kinds = ", ".join(sorted(found))
        yield Noted(f"{service.label} cannot be annotated either: {error.message}; scale will not find {kinds} of it")


def clear_unrecorded(service: ServiceRef) -> Iterator[Noted]:
    """Remove the annotation once a revision names what is applied."""
    if service.item is None or not unrecorded_kinds(service.item):
        return
    try:
        _annotate(service, ())
    except UserError as error:  # more kinds than necessary are looked for
        yield Noted(f"annotation {UNRECORDED} of {service.label} was not removed: {error.message}")


def recorded_names(known: Sequence[Revision]) -> set[tuple[str, str]]:
    """Kind and name of the objects that a history names."""
    return {(str(item["kind"]), str(item["metadata"]["name"])) for one in known for item in one.manifests}


def split_recorded(
    applied: Inventory, recorded: Collection[tuple[str, str]], namespace: str
) -> tuple[Inventory, list[str]]:
    """`applied` without the objects that are not `recorded`, and what is to be noted of those.

    A rollback leaves them as they are: it goes from one state of the history to another, and they are part of neither.
    """
    mine, notes = list[dict[str, Any]](), list[str]()
    for item in applied.objects:
        kind, name = str(item["kind"]), str(item["metadata"]["name"])
        if (kind, name) in recorded:
            mine.append(item)
        else:
            notes.append(
                f"{kind} {name} was applied by a deployment that has no revision, and stays as it is; to delete it: "
                f"kubectl delete {kind.lower()} {name} -n {namespace}"
            )
    return replace(applied, objects=mine), notes


def _annotate(service: ServiceRef, kinds: Collection[str]) -> None:
    value = ",".join(sorted(kinds)) or None
    service.cluster.patch(
        service.kind.name, service.name, service.namespace, {"metadata": {"annotations": {UNRECORDED: value}}},
        content_type="application/merge-patch+json", query=[("fieldManager", HISTORIAN)],
    )  # fmt: skip
