"""How long the replicas of a Serve configuration may take to finish their requests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rayllm_ctl.model.kube.llm_applications import deployment_options

DEFAULT_SECONDS = 20
"""graceful_shutdown_timeout_s of a deployment that sets none (Ray 2.60, ray/serve/_private/constants.py)."""


def longest_shutdown(applications: Iterable[Mapping[str, Any]]) -> int:
    """The longest graceful_shutdown_timeout_s of any deployment, in whole seconds."""
    found = [
        deployment.get("graceful_shutdown_timeout_s")
        for application in applications
        for deployment in deployment_options(application).values()
    ]
    return max((math.ceil(one) for one in found if isinstance(one, (int, float))), default=DEFAULT_SECONDS)
