"""Ray's job submission: a job runs for a while and ends as told."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from e2e.simulate.settings import Settings

_TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass
class Job:
    """One submitted job. `ended` is None while it runs."""

    submission_id: str
    request: Mapping[str, Any]
    started: float
    status: str = "RUNNING"
    message: str = "Job is currently running."
    ended: float | None = None


@dataclass
class Jobs:
    """The jobs of one Ray cluster."""

    identity: str
    _jobs: dict[str, Job] = field(default_factory=dict)

    def submit(self, request: Mapping[str, Any], now: float) -> Job:
        """Start a job. ValueError, with Ray's text, if its submission id is taken."""
        chosen = request.get("submission_id") or request.get("job_id")
        made = hashlib.sha256(f"{self.identity}/{len(self._jobs)}".encode()).hexdigest()[:16]
        name = str(chosen or f"raysubmit_{made}")
        if name in self._jobs:
            raise ValueError(f"Job with submission_id {name} already exists. Please use a different submission_id.")
        self._jobs[name] = Job(name, request, now)
        return self._jobs[name]

    def get(self, submission_id: str) -> Job | None:
        """The job with an id."""
        return self._jobs.get(submission_id)

    def all(self) -> Sequence[Job]:
        """All jobs, oldest first."""
        return list(self._jobs.values())

    def stop(self, job: Job, now: float) -> bool:
        """Stop a job; whether it was running."""
        running = job.status not in _TERMINAL
        if running:
            job.status, job.message, job.ended = "STOPPED", "Job was intentionally stopped.", now
        return running

    def delete(self, job: Job) -> bool:
        """Forget a job that has ended; whether it had."""
        if job.status not in _TERMINAL:
            return False
        del self._jobs[job.submission_id]
        return True

    def advance(self, settings: Settings, now: float) -> None:
        """End the jobs whose time has come."""
        for job in self._jobs.values():
            if job.status == "RUNNING" and now - job.started >= settings.job_seconds:
                job.status, job.ended = settings.job_status, now
                succeeded = settings.job_status == "SUCCEEDED"
                job.message = settings.job_message or ("Job finished successfully." if succeeded else "Job failed.")


def details(job: Job) -> dict[str, Any]:
    """What Ray says of a job."""
    return {
        "type": "SUBMISSION",
        "job_id": None,
        "submission_id": job.submission_id,
        "driver_info": None,
        "status": job.status,
        "entrypoint": job.request.get("entrypoint", ""),
        "message": job.message,
        "error_type": None,
        "start_time": int(job.started * 1000),
        "end_time": int(job.ended * 1000) if job.ended is not None else 0,
        "metadata": job.request.get("metadata") or {},
        "runtime_env": job.request.get("runtime_env") or {},
        "driver_exit_code": None if job.ended is None else int(job.status != "SUCCEEDED"),
    }
