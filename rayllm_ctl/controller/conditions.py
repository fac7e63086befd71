"""Conditions of an LLMService: metav1.Condition, each with the generation that it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rayllm_ctl.frozen import dataclass

PLANNED = "Planned"
APPLIED = "Applied"
CLUSTER_READY = "ClusterReady"
MODELS_READY = "ModelsReady"
GATEWAY_READY = "GatewayReady"
UPGRADING = "Upgrading"
READY = "Ready"
RECONCILING = "Reconciling"
STALLED = "Stalled"
"""Types. The last two are those of kstatus (sigs.k8s.io/cli-utils): the controller is at work; it waits for a human."""

Status = Literal["True", "False", "Unknown"]

MAX_MESSAGE = 2000
"""Characters of a message; the API allows 32,768, and lists of services are to stay small."""


@dataclass(frozen=True)
class Condition:
    """type: one of the above. reason: a word in CamelCase, of a cause its code. message: for people."""

    type: str
    status: Status
    reason: str
    message: str = ""


def condition(type_: str, holds: bool | None, reason: str, message: str = "") -> Condition:
    """A condition that holds, does not, or of which that is not known (None)."""
    status: Status = "Unknown" if holds is None else "True" if holds else "False"
    return Condition(type_, status, reason, message)


def as_status(
    conditions: Sequence[Condition], before: Sequence[Mapping[str, Any]], generation: int, now: str
) -> list[dict[str, Any]]:
    """The conditions as they are stored. before: those stored now; the time of a status that stays is kept.

    now: RFC 3339.
    """
    known = {str(one.get("type")): one for one in before}
    stored = []
    for one in conditions:
        old = known.get(one.type)
        same = old is not None and old.get("status") == one.status
        since = str(old["lastTransitionTime"]) if same and old and old.get("lastTransitionTime") else now
        stored.append(
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": _shortened(one.message),
                "observedGeneration": generation,
                "lastTransitionTime": since,
            }
        )
    return stored


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
