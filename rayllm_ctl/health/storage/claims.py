"""Checks of claims that exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.health.storage.access_modes import READ_MANY, access_mode_checks
from rayllm_ctl.health.storage.classes import class_of, is_missing_driver
from rayllm_ctl.health.storage.placement import volume_placement_checks
from rayllm_ctl.health.storage.report import found
from rayllm_ctl.model.kube.quantities import gib, parse_quantity
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.observed.storage_facts import ClaimUse, StorageFacts
from rayllm_ctl.model.text.hint import Hint

_FIXED = (("accessModes", "accessModes", "access modes"), ("storageClassName", "storageClass", "StorageClass"))
"""Fields of a claim that cannot change, with their names in the spec and for people."""


def existing_claim_checks(use: ClaimUse, stored: Object, facts: StorageFacts) -> Iterator[Check]:
    """Whether a claim can hold the model, and be mounted by the pods."""
    describe = Hint(f"kubectl describe pvc {use.name} -n {facts.namespace}")
    if fields.deleted(stored) is not None:
        yield found(use, False, "is being deleted", describe)
        return
    phase = fields.text(stored, "status", "phase")
    if phase == "Lost":
        yield found(use, False, "is Lost: its PersistentVolume is gone, with the data", describe)
        return
    yield from _unchangeable(use, stored)
    yield from _growth(use, stored, facts)
    modes = fields.words(stored, "spec", "accessModes")
    yield from access_mode_checks(use, modes, facts)
    if set(modes) == {READ_MANY} and not use.writer:
        yield found(use, None, f"has access mode {READ_MANY}: whether it holds the model's files is unknown")
    if phase == "Bound":
        if use.created is None or not grows(use.created, stored, facts):
            yield from _capacity(use, stored)
        yield from volume_placement_checks(use, stored, facts)
    else:
        yield from _pending(use, stored, facts, describe)


def _unchangeable(use: ClaimUse, stored: Object) -> Iterator[Check]:
    """Fields of a claim to create that differ from those of the claim that is there, and cannot be changed."""
    wanted: Mapping[str, Any] = fields.mapping(use.created, "spec")
    for key, setting, name in _FIXED:
        asked, given = wanted.get(key), fields.at(stored, "spec", key)
        if asked is not None and asked != given:
            yield found(
                use, False, f"has the {name} {_text(given)}, and {_text(asked)} cannot be set on a claim that exists",
                Hint(remark=f"{use.field}.create.{setting}: {_text(given)}"),
                Hint(remark=f"or another name in {use.field}.{use.key}"),
            )  # fmt: skip


def _growth(use: ClaimUse, stored: Object, facts: StorageFacts) -> Iterator[Check]:
    """A claim that stays smaller than asked for."""
    if use.created is None or _size(use.created) <= _size(stored) or grows(use.created, stored, facts):
        return
    name = fields.text(stored, "spec", "storageClassName")
    yield found(
        use, None,
        f"keeps its size of {request_of(stored)}: StorageClass {name} does not allow expansion to "
        f"{request_of(use.created)}",
    )  # fmt: skip


def grows(created: Object, stored: Object, facts: StorageFacts) -> bool:
    """Whether a claim is to have more than it has, and its class allows expansion, as far as this is known."""
    if _size(created) <= _size(stored):
        return False
    storage_class = class_of(facts.classes or (), fields.text(stored, "spec", "storageClassName"))
    return facts.classes is None or (storage_class is not None and fields.flag(storage_class, "allowVolumeExpansion"))


def request_of(claim: Object) -> str:
    """The size that a claim asks for; empty if it has none."""
    return fields.text(claim, "spec", "resources", "requests", "storage")


def _size(claim: Object) -> float:
    sizes = (request_of(claim), fields.text(claim, "status", "capacity", "storage"))
    return max((parse_quantity(one) for one in sizes if one), default=0.0)


def _text(value: Any) -> str:
    return f"[{', '.join(value)}]" if isinstance(value, list | tuple) else str(value or "none")


def _capacity(use: ClaimUse, stored: Object) -> Iterator[Check]:
    """The capacity against the bytes of the model. What else is in the volume is not seen."""
    text = fields.text(stored, "status", "capacity", "storage")
    if not text or use.model_bytes is None or parse_quantity(text) >= use.model_bytes:
        return
    yield found(
        use, False, f"has a capacity of {text}, and the model's files take {gib(use.model_bytes)} GiB",
        Hint(remark="a larger claim, or a larger request of this one where its StorageClass allows expansion"),
    )  # fmt: skip


def _pending(use: ClaimUse, stored: Object, facts: StorageFacts, describe: Hint) -> Iterator[Check]:
    """Why a claim without a volume never gets one, or that it still may."""
    name = fields.text(stored, "spec", "storageClassName")
    if fields.text(stored, "spec", "volumeName"):
        yield found(use, None, f"waits for PersistentVolume {fields.text(stored, 'spec', 'volumeName')}", describe)
    elif facts.classes is None:
        yield found(use, None, "is Pending; its StorageClass could not be read", describe)
    elif not name:
        yield found(use, None, "is Pending without a StorageClass: it waits for a PersistentVolume", describe)
    elif (storage_class := class_of(facts.classes, name)) is None:
        yield found(
            use, None, f"is Pending: there is no StorageClass {name}, and no PersistentVolume of it is bound", describe
        )  # fmt: skip
    elif is_missing_driver(storage_class, facts):
        provisioner = fields.text(storage_class, "provisioner")
        yield found(
            use, False, f"is Pending: the provisioner {provisioner} of its StorageClass {name} is not installed",
            Hint("kubectl get csidrivers"), describe,
        )  # fmt: skip
    elif fields.text(storage_class, "volumeBindingMode") != "WaitForFirstConsumer":
        yield found(use, None, "is Pending: its volume is being made, or cannot be", describe)
