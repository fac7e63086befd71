"""A finding about a claim."""

from __future__ import annotations

from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.storage_facts import ClaimUse
from rayllm_ctl.model.text.hint import Hint

CATEGORY = "storage"


def found(use: ClaimUse, ok: bool | None, detail: str = "", *hints: Hint) -> Check:
    """A check of the claim, with the field that names it where something is to be changed."""
    shown = f"{detail} ({use.field}.{use.key})" if detail and ok is False else detail
    return Check(CATEGORY, f"persistentvolumeclaim/{use.name}", ok, shown, hints)
