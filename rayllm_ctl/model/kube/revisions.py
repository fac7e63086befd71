"""Revisions of a service: manifests, author and outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.labels import CHANGE, CODE_DIGEST, OUTCOME, SPEC_DIGEST, START_SECONDS, USER

KEPT = 10
"""Revisions of a service that are kept."""

WAITING = "waiting"
NOT_WAITED = "not waited for"
READY = "Ready"
"""Outcomes; READY is followed by how long it took, and what else there is by a failure's code."""


@dataclass(frozen=True)
class Revision:
    """One applied state of a service. when: RFC 3339. start_seconds: what its plan gives a start, None if unknown.

    spec, digest: of the LLMService that the controller rendered it from; none of what the command line applied.
    """

    number: int
    when: str
    who: str
    change: str
    outcome: str
    manifests: tuple[Mapping[str, Any], ...] = ()
    start_seconds: float | None = None
    object_name: str = ""
    uid: str = ""
    spec: Mapping[str, Any] | None = None
    digest: str = ""

    @property
    def was_ready(self) -> bool:
        """Whether the service was Ready in this state."""
        return self.outcome.startswith(READY)

    @property
    def facts(self) -> dict[str, Any]:
        """The revision as a row of a list."""
        return {
            "revision": self.number,
            "when": self.when,
            "who": self.who,
            "change": self.change,
            "outcome": self.outcome,
        }


def revision_of(item: Mapping[str, Any]) -> Revision:
    """The revision that a ControllerRevision holds."""
    metadata = item["metadata"]
    notes = metadata.get("annotations") or {}
    seconds = str(notes.get(START_SECONDS, ""))
    return Revision(
        number=int(item.get("revision") or 0),
        when=str(metadata.get("creationTimestamp") or ""),
        who=str(notes.get(USER, "")),
        change=str(notes.get(CHANGE, "")),
        outcome=str(notes.get(OUTCOME, "")),
        manifests=tuple((item.get("data") or {}).get("manifests") or ()),
        start_seconds=float(seconds) if seconds.replace(".", "", 1).isdigit() else None,
        object_name=metadata["name"],
        uid=metadata["uid"],
        spec=(item.get("data") or {}).get("spec"),
        digest=str(notes.get(SPEC_DIGEST, "")),
    )


def code_digest(item: Mapping[str, Any]) -> str:
    """The digest of the code of rayllm-ctl in a ConfigMap; empty for all other objects."""
    notes = item["metadata"].get("annotations") or {}
    return str(notes.get(CODE_DIGEST, "")) if item["kind"] == "ConfigMap" else ""


def as_kept(item: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest as a revision has it: of code that rayllm-ctl ships the digest alone."""
    return {key: value for key, value in item.items() if key != "binaryData" or not code_digest(item)}
