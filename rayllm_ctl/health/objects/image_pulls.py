"""Images that are being pulled for a pod, or were, by the kubelet's events."""

from __future__ import annotations

import re
from datetime import datetime

from rayllm_ctl.health.context import ServiceContext
from rayllm_ctl.health.objects.pod import Pod


def pulled(context: ServiceContext, pod: Pod) -> tuple[datetime | None, str] | None:
    """When the pod's last image was pulled and how long that took ("48.2s"), or None if none had to be."""
    event = next(
        (
            one
            for one in reversed(context.events.of("Pod", pod.name, "Pulled"))
            if one.message.startswith("Successfully pulled")
        ),
        None,
    )
    if event is None:
        return None
    took = re.search(r" in ([\d.hms]+)", event.message)
    return event.last, took[1] if took else ""


def pulling(context: ServiceContext, pod: Pod) -> str:
    """The image that is being pulled for the pod now, or an empty string."""
    newest = context.events.last("Pod", pod.name, "Pulling", "Pulled", "Failed", "BackOff")
    named = re.search(r'Pulling image "([^"]+)"', newest.message) if newest and newest.reason == "Pulling" else None
    return named[1] if named else ""
