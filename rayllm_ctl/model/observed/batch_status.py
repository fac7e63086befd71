"""The health of a batch job: one BatchHealth from the objects of a Snapshot."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from enum import StrEnum

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.observed.batch_progress import Progress, Result
from rayllm_ctl.model.observed.health import Cause, StatusNode
from rayllm_ctl.model.observed.model_downloads import ModelDownload
from rayllm_ctl.model.text.json_form import OMIT_NONE

SETTINGS = "settings.json"
"""Key of the ConfigMap with the settings of a job's driver."""


class JobState(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    RETRYING = "Retrying"
    STUCK = "Stuck"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    DELETING = "Deleting"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"


class JobOutcome(StrEnum):
    """How a job ended: every row has a row in the output and not too many of them an error; every row, but too many
    errors; the input was rejected; anything else."""

    ANSWERED = "Answered"
    TOO_MANY_ERRORS = "TooManyRowErrors"
    REJECTED = "Rejected"
    FAILED = "Failed"


@dataclass(frozen=True)
class BatchHealth:
    """The health of a batch job. `message` summarizes it; causes come with the root cause first.

    outcome: how it ended; None: it has not. progress: the driver's newest figures, None before the first;
    result: its totals at the end. output: where the answers are, empty if that is unknown.
    attempt, attempts: the number of this try and of all that `retries` allows.
    started, ended: when KubeRay took it up, and when it ended. since: when it came into this state. observed_at: the
    time of the Snapshot. downloads: models that Jobs download into shared storage; None if there are none.
    """

    state: JobState
    message: str
    outcome: JobOutcome | None = field(default=None, metadata=OMIT_NONE)
    causes: tuple[Cause, ...] = ()
    progress: Progress | None = None
    result: Result | None = None
    output: str = ""
    tree: tuple[StatusNode, ...] = ()
    notes: tuple[str, ...] = ()
    attempt: int = 1
    attempts: int = 1
    started: datetime | None = None
    ended: datetime | None = None
    since: datetime | None = None
    observed_at: datetime | None = None
    downloads: tuple[ModelDownload, ...] | None = field(default=None, metadata=OMIT_NONE)

    @property
    def terminal_cause(self) -> Cause | None:
        """The first terminal cause of a job that runs and has not finished any row."""
        if self.outcome is not None or (self.progress is not None and self.progress.done > self.progress.resumed):
            return None
        return next((cause for cause in self.causes if cause.terminal), None)
