"""Events of a wait for a batch job. A console draws them."""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.events import Noted
from rayllm_ctl.model.observed.batch_status import BatchHealth, JobOutcome


@dataclass(frozen=True)
class BatchObserved:
    """A new observation of a job while waiting; `elapsed` in seconds since the wait began."""

    health: BatchHealth
    elapsed: float


@dataclass(frozen=True)
class BatchEnded:
    """The job has ended, `elapsed` seconds after the wait began."""

    name: str
    namespace: str
    outcome: JobOutcome
    health: BatchHealth
    elapsed: float


BatchEvent = BatchObserved | BatchEnded | Noted
