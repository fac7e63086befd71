"""Serve's answer to GET /api/serve/applications/, as far as all that read it have to agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

NO_CONTROLLER: Final = "Ray's dashboard does not reach Serve's controller"


def lacks_controller(answer: Mapping[str, Any]) -> bool:
    """Whether the answer is the dashboard's own, with nothing of Serve's controller in it.

    It is the same, with status 200, where Serve was never started and where the controller cannot be found for whatever
    reason (get_serve_controller in ray/dashboard/modules/serve/serve_head.py of Ray 2.60). So of a RayCluster on which
    Serve has run it does not say that there is no application.
    """
    return "controller_info" in answer and not answer["controller_info"]
