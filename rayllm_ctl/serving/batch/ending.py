"""The end of a job that another try cannot change.

KubeRay starts a RayJob again, up to spec.backoffLimit times, whenever the Ray job has FAILED, whatever the exit code;
one that was STOPPED counts as complete (KubeRay 1.6.2, ray-operator/controllers/ray/rayjob_controller.go). So the
driver stops its own Ray job in place of failing.
"""

from __future__ import annotations

import json
import os
import sys
import time

_JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""The variable in which Ray tells a driver what it was submitted as (ray/_private/runtime_env/constants.py)."""
_WAIT_SECONDS = 30.0


def stop_own_job() -> None:
    """Have Ray stop this process. Returns where Ray did not start it, or does not stop it."""
    job = json.loads(os.environ.get(_JOB_CONFIG, "{}")).get("metadata", {}).get("job_submission_id")
    if job is None:
        return
    from ray.job_submission import JobSubmissionClient

    try:
        JobSubmissionClient().stop_job(job)
    except (RuntimeError, OSError) as error:
        sys.stderr.write(f"the Ray job {job} could not be stopped, so KubeRay may start it again: {error}\n")
        return
    time.sleep(_WAIT_SECONDS)
