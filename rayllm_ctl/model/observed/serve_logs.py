"""Names of the logs of failed replicas in a Snapshot, and the message of a retry by Serve."""

from __future__ import annotations

import re
from typing import Final

SLOW_START: Final = "taken more than"
"""In Serve's warning of a replica that has waited or loaded for 30 s. After a failed start it replaces the message of
that (ray/serve/_private/deployment_state.py 2.60)."""


def replica_logs(app: str, deployment: str) -> str:
    """How the names of the log files of a deployment's replicas begin; the actor's ID follows."""
    return f"replica-{_stem(app, deployment)}-"


def controller_log(app: str, deployment: str) -> str:
    """The file with what Serve's controller logged of the last replica of a deployment that failed to start."""
    return f"controller-{_stem(app, deployment)}.log"


def _stem(app: str, deployment: str) -> str:
    return f"{app}.{re.sub(r'[^A-Za-z0-9_.-]', '.', deployment)}"
