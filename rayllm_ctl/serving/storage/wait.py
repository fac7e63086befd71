"""The wait of a serving pod until its model is complete."""

from __future__ import annotations

import time
from collections.abc import Callable

from rayllm_ctl.serving.storage import marker
from rayllm_ctl.serving.storage.events import say_event
from rayllm_ctl.serving.storage.failures import Temporary
from rayllm_ctl.serving.storage.places import open_target
from rayllm_ctl.serving.storage.settings import StorageSettings
from rayllm_ctl.serving.storage.targets.target import Target

_POLL_SECONDS = 2.0
_TELL_SECONDS = 30.0


def wait(
    settings: StorageSettings, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
) -> None:
    """Return once the target is complete; say why it is not, at each change and now and then."""
    target = open_target(settings)
    told, again = "", 0.0
    while (why := _missing(settings, target)) is not None:
        if why != told or clock() >= again:
            told, again = why, clock() + _TELL_SECONDS
            say_event({"event": "waiting", "folder": settings.target, "why": why})
        sleep(_POLL_SECONDS)


def _missing(settings: StorageSettings, target: Target) -> str | None:
    try:
        found = target.marker()
        return marker.incomplete(found, settings, target.sizes(found.files if found else ()))
    except Temporary as error:
        return error.failure.message
    except OSError as error:
        return f"{settings.target} cannot be read: {error.strerror or error}"
