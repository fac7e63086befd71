"""Checks of the volumes of a service before it is applied. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rayllm_ctl.health.storage.claims import existing_claim_checks
from rayllm_ctl.health.storage.new_claims import new_claim_checks
from rayllm_ctl.health.storage.pods import ownership_check
from rayllm_ctl.health.storage.report import found
from rayllm_ctl.health.storage.uses import FILLED, MIRRORED
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.storage_facts import ClaimUse, StorageFacts
from rayllm_ctl.model.text.hint import Hint


def storage_checks(uses: Sequence[ClaimUse], facts: StorageFacts) -> Iterator[Check]:
    """What the cluster shows of each claim; one check that is ok for a claim without findings."""
    for use in uses:
        checks = list(_claim_checks(use, facts))
        yield from checks or [found(use, True)]


def _claim_checks(use: ClaimUse, facts: StorageFacts) -> Iterator[Check]:
    if use.name not in facts.claims:
        yield found(use, None, "was not checked: not permitted to get persistentvolumeclaims")
        return
    stored = facts.claims[use.name]
    if stored is not None:
        yield from existing_claim_checks(use, stored, facts)
    elif use.created is not None:
        yield from new_claim_checks(use, use.created, facts)
    else:
        create = f"{use.field}.create: {{}} creates it"
        if use.field == FILLED:
            create = f"{MIRRORED}.create: {{}} creates it, and a Job downloads the model into it"
        yield found(
            use, False, f"does not exist in namespace {facts.namespace}",
            Hint(f"kubectl get pvc -n {facts.namespace}"), Hint(remark=create),
        )  # fmt: skip
        return
    yield from ownership_check(use)
