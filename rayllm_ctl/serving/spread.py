"""Whether the workers of the ingress have the code that this process has."""

from __future__ import annotations

import logging
import os
from typing import Final

import ray
from ray.exceptions import GetTimeoutError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rayllm_ctl.serving.shipped import VARIABLE, WAIT_SECONDS

logger = logging.getLogger("rayllm.gateway")


RESOURCE: Final = "rayllm-ingress"
"""What workers of the ingress have, and a replica of it takes."""


def wait_for_nodes() -> None:
    """Wait until all workers of the ingress have the code of this process, as long as kubelets may take.

    Serve ends a replica of the ingress before it starts the one with other code, which would wait for its node while
    nothing answers. Called where the application is built: running replicas serve until that has succeeded.
    """
    if not os.environ.get(VARIABLE):
        return
    # It has the runtime_env of this process, so a node imports this package by the code in question.
    look = ray.remote(num_cpus=0)(_look)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and RESOURCE in node["Resources"]]
    looks = [
        look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True)).remote() for node in nodes
    ]
    try:
        ray.get(looks, timeout=WAIT_SECONDS)
    except GetTimeoutError:
        logger.warning("Some nodes do not have the code of the ingress yet; its replicas there start when they do")


def _look() -> None:
    """Done once it has been imported."""
