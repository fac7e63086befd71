"""Kubernetes events of a service, as `events` shows them."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.text.json_form import OMIT_NONE


@dataclass(frozen=True)
class ServiceEvent:
    """An event about `object` (kind/name), seen `count` times between `first` and `last`.

    message: the controller's text. cause, explanation: code and message of the cause that was concluded from it.
    """

    object: str
    reason: str
    message: str
    warning: bool
    count: int
    first: datetime | None
    last: datetime | None
    cause: str | None = field(default=None, metadata=OMIT_NONE)
    explanation: str | None = field(default=None, metadata=OMIT_NONE)
