"""PersistentVolumeClaims that are created with a service: their sizes, and those that several models share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.quantities import GIB, canonical_quantity, gib, parse_quantity
from rayllm_ctl.model.plan.storage import PlannedClaim
from rayllm_ctl.model.spec.model_storage import AUTO_SIZE, ModelStorage, NewClaim

_AT = "spec.storage.model"

_MARGIN = 10
"""Percent of the files: file systems keep a share for themselves, and tokenizer and config come on top of weights."""


def planned_claim(storage: ModelStorage, model_id: str, file_bytes: int | None) -> tuple[PlannedClaim, ...]:
    """The claim for the files of a model, if it is created. UsageError if its size has to be given."""
    at, name, create = _created(storage)
    if create is None:
        return ()
    if create.size != AUTO_SIZE:
        return (_claim(name, create, canonical_quantity(create.size)),)
    if file_bytes is None:
        raise UsageError(
            f"{at}.size: auto requires the size of the model's files, and that of {model_id} is not known",
            hint=f"{at}.size: 200Gi",
        )
    return (replace(_claim(name, create, folder_size(file_bytes)), file_bytes=file_bytes),)


def require_capacity(storage: ModelStorage, models: Mapping[str, int | None]) -> tuple[str, ...]:
    """Check that the files of all `models` fit in the claim, if it is created with a given size.

    models: bytes of the files by id; None: not known. Returns a note if that leaves it open. UsageError
    if they do not fit. Of several models the margin is required too: their downloads start together, each finds the
    space of all free, and the volume is full only after hours.
    """
    at, name, create = _created(storage)
    if create is None or create.size == AUTO_SIZE:
        return ()
    size, several = create.size.strip(), len(models) > 1
    known = sum(one for one in models.values() if one is not None)
    unknown = " and ".join(model for model, one in models.items() if one is None)
    if 100 * parse_quantity(size) < known * (100 + (_MARGIN if several else 0)):
        raise _too_small(f"{at}.size", size, models, known, unknown)
    if unknown:
        others = f", and those of the other models have {gib(known)} GiB" if known else ""
        return (
            f"claim {name} is created with {size}; whether the model fits is not known: the size of the files of "
            f"{unknown} is unknown{others}",
        )
    return ()


def _too_small(field: str, size: str, models: Mapping[str, int | None], known: int, unknown: str) -> UsageError:
    if len(models) == 1:
        why = f": the files of {next(iter(models))} have {gib(known)} GiB"
    else:
        each = (f"{model} {'unknown' if one is None else f'{gib(one)} GiB'}" for model, one in models.items())
        least = "at least " if unknown else ""
        why = f" for {least}{gib(known)} GiB of files plus {_MARGIN} %: {', '.join(each)}"
    instead = f"plus the files of {unknown}" if unknown else f"or {AUTO_SIZE}"
    return UsageError(
        f"{field}: {size} is too small{why}", hint=f"{field}: {folder_size(known)}{' ' if unknown else ', '}{instead}"
    )


def _created(storage: ModelStorage) -> tuple[str, str, NewClaim | None]:
    """The claim for the files of models: where the spec creates it, its name, and how; None if it is not created."""
    if storage.hub is not None:
        return f"{_AT}.hub.create", storage.hub.cache, storage.hub.create
    claim = storage.mirror.to.claim if storage.mirror is not None else None
    return ("", "", None) if claim is None else (f"{_AT}.mirror.to.claim.create", claim.name, claim.create)


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
