"""PersistentVolumeClaims that are created with a service: their sizes, and those that several models share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.quantities import GIB, canonical_quantity, gib, parse_quantity
from rayllm_ctl.model.plan.storage import PlannedClaim
from rayllm_ctl.model.spec.model_storage import AUTO_SIZE, NewClaim

_MARGIN = 10
"""Percent of the files: file systems keep a share for themselves, and tokenizer and config come on top of weights."""


def planned_claim(
    create: NewClaim | None, name: str, at: str, model_id: str, file_bytes: int | None
) -> tuple[PlannedClaim, ...]:
    """The claim, if it is created. at: the place in the spec. UsageError if its size has to be given, or if the model's
    files do not fit in it."""
    if create is None:
        return ()
    if create.size != AUTO_SIZE:
        if file_bytes is not None and parse_quantity(create.size) < file_bytes:
            raise UsageError(
                f"{at}.size: {create.size.strip()} is too small: the files of {model_id} have {gib(file_bytes)} GiB",
                hint=f"{at}.size: {folder_size(file_bytes)}, or {AUTO_SIZE}",
            )
        return (_claim(name, create, canonical_quantity(create.size)),)
    if file_bytes is None:
        raise UsageError(
            f"{at}.size: auto requires the size of the model's files, and that of {model_id} is not known",
            hint=f"{at}.size: 200Gi",
        )
    return (replace(_claim(name, create, folder_size(file_bytes)), file_bytes=file_bytes),)


def cache_claim(create: NewClaim | None, name: str, size: str) -> tuple[PlannedClaim, ...]:
    """A claim for what does not depend on the model's files, with a `size` where none is given."""
    if create is None:
        return ()
    return (_claim(name, create, size if create.size == AUTO_SIZE else canonical_quantity(create.size)),)


def folder_size(file_bytes: int) -> str:
    """The size of a volume for files, in whole Gi."""
    return canonical_quantity(f"{max(1, -(-file_bytes * (100 + _MARGIN) // (100 * GIB)))}Gi")


def shared_claims(claims: Iterable[PlannedClaim]) -> tuple[PlannedClaim, ...]:
    """The claims of several models: one that they share has the size of all their files."""
    found: dict[str, PlannedClaim] = {}
    for claim in claims:
        other = found.get(claim.name)
        if other is not None and other.file_bytes is not None and claim.file_bytes is not None:
            total = other.file_bytes + claim.file_bytes
            claim = replace(claim, size=folder_size(total), file_bytes=total)
        found[claim.name] = claim
    return tuple(found.values())


def _claim(name: str, create: NewClaim, size: str) -> PlannedClaim:
    return PlannedClaim(name, size, create.storage_class, create.access_modes)
