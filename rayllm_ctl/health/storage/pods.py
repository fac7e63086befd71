"""What pods do to the volumes that they mount."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.health.storage.report import found
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.storage_facts import ClaimUse
from rayllm_ctl.model.text.hint import Hint

_LARGE = 50e9
"""Bytes from which a change of the owner of all files delays a start noticeably."""


def ownership_check(use: ClaimUse) -> Iterator[Check]:
    """A warning if the kubelet changes the owner of all files of a large volume at each start
    (kubernetes.io/docs/tasks/configure-pod-container/security-context, fsGroupChangePolicy)."""
    if use.model_bytes is None or use.model_bytes < _LARGE:
        return
    contexts = [fields.mapping(one, "spec", "securityContext") for one in use.templates]
    if any("fsGroup" in one and one.get("fsGroupChangePolicy") != "OnRootMismatch" for one in contexts):
        yield found(
            use, None, "with fsGroup the kubelet may change the group of all its files at each start of a pod",
            Hint(remark="fsGroupChangePolicy: OnRootMismatch in the security context of the pods"),
        )  # fmt: skip
