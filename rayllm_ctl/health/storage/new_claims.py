"""Checks of claims that are created with the service: whether they ever get a volume that the pods can use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.health.storage.access_modes import MANY, READ_MANY, access_mode_checks
from rayllm_ctl.health.storage.classes import (
    NO_PROVISIONER,
    PROVISIONERS,
    class_of,
    default_class,
    is_missing_driver,
)
from rayllm_ctl.health.storage.placement import class_placement_checks
from rayllm_ctl.health.storage.report import found
from rayllm_ctl.model.kube.quantities import gib, parse_quantity
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.observed.storage_facts import ClaimUse, StorageFacts
from rayllm_ctl.model.text.hint import Hint

_CLASSES = Hint("kubectl get storageclass")


def new_claim_checks(use: ClaimUse, created: Mapping[str, Any], facts: StorageFacts) -> Iterator[Check]:
    """Whether the claim `created` gets a volume, of a sufficient size, that all pods can mount."""
    modes = fields.words(created, "spec", "accessModes")
    yield from access_mode_checks(use, modes, facts)
    yield from _size(use, created)
    if facts.classes is None:
        yield found(use, None, "is created; its StorageClass could not be read")
        return
    named = fields.at(created, "spec", "storageClassName")
    storage_class = default_class(facts.classes) if named is None else class_of(facts.classes, str(named))
    if storage_class is None or fields.text(storage_class, "provisioner") == NO_PROVISIONER:
        yield from _waits_for_volume(use, created, storage_class, facts)
        return
    yield from _of_class(use, modes, storage_class, facts)


def _size(use: ClaimUse, created: Mapping[str, Any]) -> Iterator[Check]:
    text = fields.text(created, "spec", "resources", "requests", "storage")
    if text and use.model_bytes is not None and parse_quantity(text) < use.model_bytes:
        yield found(
            use, False, f"is created with {text}, and the model's files take {gib(use.model_bytes)} GiB",
            Hint(remark=f"{use.field}.create.size: auto"),
        )  # fmt: skip


def _of_class(use: ClaimUse, modes: tuple[str, ...], storage_class: Object, facts: StorageFacts) -> Iterator[Check]:
    name, provisioner = fields.name(storage_class), fields.text(storage_class, "provisioner")
    of = f"StorageClass {name} ({provisioner})"
    if is_missing_driver(storage_class, facts):
        yield found(use, False, f"gets no volume: the provisioner of {of} is not installed", _CLASSES, _field(use))
        return
    known = PROVISIONERS.get(provisioner)
    wanted = next((mode for mode in (MANY, READ_MANY) if mode in modes), "")
    if wanted and known is None:
        yield found(use, None, f"whether {of} supports {wanted} is unknown")
    elif wanted and known is not None and not (known.many or (wanted == READ_MANY and known.read_many)):
        if known.many is None:
            yield found(use, None, f"{of} supports {wanted} only {known.condition}", _field(use))
        else:
            shared = Hint("kubectl get storageclass", "with shared file systems: NFS, EFS, Filestore, Azure Files")
            yield found(use, False, f"gets no volume: {of} does not support {wanted}", shared, _field(use), _modes(use))
    yield from class_placement_checks(use, storage_class, known is not None and known.zonal, facts)


def _waits_for_volume(
    use: ClaimUse, created: Mapping[str, Any], storage_class: Object | None, facts: StorageFacts
) -> Iterator[Check]:
    """A claim for which no volume is made: one that is there has to fit."""
    named = fields.at(created, "spec", "storageClassName")
    if storage_class is not None:
        why = f"StorageClass {fields.name(storage_class)} makes no volumes ({NO_PROVISIONER})"
    elif named:
        why = f"there is no StorageClass {named}"
    elif named is None:
        why = "the cluster has no default StorageClass"
    else:
        why = "it is created without a StorageClass"
    if facts.volumes is None:
        yield found(use, None, f"{why}, and whether a PersistentVolume fits is unknown")
        return
    name = fields.name(storage_class) if storage_class is not None else str(named or "")
    if any(_fits(volume, created, name) for volume in facts.volumes):
        return
    there = ", ".join(sorted(map(fields.name, facts.classes or ()))) or "none"
    yield found(
        use, False, f"gets no volume: {why}, and no available PersistentVolume fits; StorageClasses: {there}",
        _CLASSES, _field(use),
    )  # fmt: skip


def _fits(volume: Object, created: Mapping[str, Any], class_name: str) -> bool:
    """Whether the claim can be bound to the volume, as the volume controller decides (pkg/controller/volume)."""
    capacity = fields.text(volume, "spec", "capacity", "storage")
    request = fields.text(created, "spec", "resources", "requests", "storage")
    reserved = fields.mapping(volume, "spec", "claimRef")
    mine = not reserved or fields.text(reserved, "name") == fields.name(created)
    return (
        fields.text(volume, "status", "phase") == "Available"
        and mine
        and fields.text(volume, "spec", "storageClassName") == class_name
        and set(fields.words(created, "spec", "accessModes")) <= set(fields.words(volume, "spec", "accessModes"))
        and bool(capacity)
        and parse_quantity(capacity) >= parse_quantity(request or "0")
    )


def _field(use: ClaimUse) -> Hint:
    return Hint(remark=f"{use.field}.create.storageClass: NAME")


def _modes(use: ClaimUse) -> Hint:
    return Hint(remark=f"or, for pods of one node, {use.field}.create.accessModes: [ReadWriteOnce]")
