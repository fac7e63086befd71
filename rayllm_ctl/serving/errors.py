"""Errors that answers of models end with, and which of them mean that the replica was lost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    RayTaskError,
    WorkerCrashedError,
)
from ray.llm._internal.common.errors import VLLM_FATAL_ERRORS

from rayllm_ctl.serving.gateway.http.upstream import UNAVAILABLE
from rayllm_ctl.serving.gateway.steps import Rejection

LOST: Final = "replica_lost"

_LOST = (RayActorError, OutOfMemoryError, WorkerCrashedError, NodeDiedError, ObjectLostError)
"""The actor died or cannot be reached, or an object of its node is gone: a large answer that was not yet fetched."""

_DEAD_ENGINE: Final = "EngineCore encountered an issue"
"""How the message of vLLM's EngineDeadError begins (vllm/v1/engine/exceptions.py 0.29)."""


_FAILED_GENERATION: Final = "GenerationError"
"""vLLM's error for an answer that its engine ended without a reason (vllm/exceptions.py 0.29)."""

_FAILED_EVENT: Final = re.compile(r'data: \{"error": ?\{"message": ?"Internal server error"')
"""How that error begins as an event of a stream."""


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


def constrained_by(body: Any) -> str | None:
    """The field of a request with a schema or grammar that the engine has to follow; None if there is none."""
    if getattr(body, "structured_outputs", None) is not None:
        return "structured_outputs"
    if _kind(getattr(body, "response_format", None)) in ("json_schema", "structural_tag"):
        return "response_format"
    choice = getattr(body, "tool_choice", None)
    return "tools" if choice is not None and choice not in ("none", "auto") else None


def cannot_follow(part: object, field: str) -> EngineError | None:
    """The error of a request whose schema or grammar in `field` ended the answer `part`; None for other answers.

    vLLM checks a schema in its front end, and compiles it in its engine. What passes the first and fails the second
    (`"minLength": -1`, or a pattern that only another of its backends knows) is an error without a reason there, as is
    an answer that left the grammar. The one other cause are lost parts of a KV cache that is transferred between
    engines (vLLM 0.29, v1/core/sched/scheduler.py).
    """
    if isinstance(part, RayTaskError):
        failed = any(kind.__name__ == _FAILED_GENERATION for kind in type(part.cause).__mro__)
    else:
        events = part if isinstance(part, list) else [part]
        failed = any(isinstance(event, str) and _FAILED_EVENT.match(event) for event in events)
    if not failed:
        return None
    return EngineError(400, "invalid_value", f"{field}: the engine cannot compile or follow this schema", field)


def _kind(given: Any) -> Any:
    return given.get("type") if isinstance(given, Mapping) else getattr(given, "type", None)
