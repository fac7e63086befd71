"""Errors that answers of models end with, and which of them mean that the replica was lost."""

from __future__ import annotations

from typing import Final

from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayTaskError,
    WorkerCrashedError,
)
from ray.llm._internal.common.errors import VLLM_FATAL_ERRORS

from rayllm_ctl.serving.gateway.steps import Rejection
from rayllm_ctl.serving.gateway.upstream import UNAVAILABLE

LOST: Final = "replica_lost"

_LOST = (RayActorError, OutOfMemoryError, WorkerCrashedError, NodeDiedError, ObjectLostError)
"""The actor died or cannot be reached, or an object of its node is gone: a large answer that was not yet fetched."""

_DEAD_ENGINE: Final = "EngineCore encountered an issue"
"""How the message of vLLM's EngineDeadError begins (vllm/v1/engine/exceptions.py 0.29)."""


class EngineError(Exception):
    """An engine of ours rejects or fails a request, with a message that is meant for clients."""

    def __init__(self, status: int, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.rejection = Rejection(status, message, code, param)


def is_lost(error: Exception) -> bool:
    """Whether an error means that the replica was lost."""
    return has_ended(error) or (isinstance(error, _LOST) and not isinstance(error, RayTaskError))


def has_ended(error: Exception) -> bool:
    """Whether the engine of a replica has ended for good, or its process without Serve's router knowing it.

    Serve replaces the replica after three failed health checks. Until then the router prefers it, as it is always idle.
    """
    if isinstance(error, EngineError):
        return error.rejection.code == LOST
    if isinstance(error, RayTaskError):
        # What the replica says of other actors is not about itself.
        return isinstance(error.cause, VLLM_FATAL_ERRORS)
    return isinstance(error, OutOfMemoryError)


def check_event(part: object) -> None:
    """EngineError if a part of vLLM's stream says that its engine died.

    vLLM has it in an event like others, and ends the stream as if it were complete.
    """
    for event in part if isinstance(part, list) else (part,):
        if isinstance(event, str) and event.startswith('data: {"error"') and _DEAD_ENGINE in event:
            raise EngineError(503, LOST, UNAVAILABLE[LOST])
