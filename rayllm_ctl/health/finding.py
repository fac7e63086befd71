"""What a rule hands back: a cause, and what is needed to merge and to announce it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.observed.health import Cause
from rayllm_ctl.model.text.hint import Hint


@dataclass(frozen=True)
class Finding:
    """A cause found. `headline` says it in a few words; findings of one `key` are the same trouble of several pods.

    `recovers`: what was lost is being replaced, without anybody changing anything.
    `consequence`: it may follow from pods that are missing or gone. `waits`: what it waits for may still come, whatever
    its code.
    """

    cause: Cause
    headline: str
    key: tuple[str, ...] = ()
    recovers: bool = False
    consequence: bool = False
    waits: bool = False


def finding(
    code: str,
    subject: str,
    message: str,
    *,
    headline: str,
    evidence: Sequence[str],
    hint: Sequence[Hint],
    terminal: bool = False,
    since: datetime | None = None,
    key: Sequence[str] = (),
    recovers: bool = False,
    consequence: bool = False,
    waits: bool = False,
) -> Finding:
    """A Finding with its Cause. `subject` is `kind/name`; findings without a `key` are never merged."""
    cause = Cause(code, subject, message, tuple(line for line in evidence if line), tuple(hint), terminal, since)
    return Finding(cause, headline, (code, *key) if key else (code, subject), recovers, consequence, waits)
