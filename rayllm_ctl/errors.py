"""Errors for users: what failed and why, and what to type next.

Exit codes (the one table; `rayllm-ctl --help` prints it):

0    done
1    failed, or the answer is no: does not fit, not healthy, there are differences, rows have errors
2    usage: flags, spec file or kubeconfig are invalid; nothing was attempted
3    timed out while waiting; the service may still become ready, a job keeps running
4    conflict: another client owns or has changed the same fields
5    the cluster is unreachable, or denies the credentials or the permissions
6    diff: a change matches --fail-on
7    diff, batch watch, batch submit --wait: failed without an answer
8    batch watch, batch submit --wait: the input was rejected
130  interrupted
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

OK = 0
FAILED = 1
USAGE = 2
TIMED_OUT = 3
CONFLICT = 4
CLUSTER = 5
RULED_OUT = 6
NO_ANSWER = 7
"""Of commands whose 1 is an answer: differences as in kubectl diff, where failures are greater than 1, and rows with
errors."""
INPUT_REJECTED = 8
INTERRUPTED = 130

EXIT_CODES: dict[int, str] = {
    OK: "done",
    FAILED: "failed, or the answer is no: does not fit, not healthy, there are differences, rows have errors",
    USAGE: "usage: flags, spec file or kubeconfig are invalid; nothing was attempted",
    TIMED_OUT: "timed out while waiting; the service may still become ready, a job keeps running",
    CONFLICT: "conflict: another client owns or has changed the same fields",
    CLUSTER: "the cluster is unreachable, or denies the credentials or the permissions",
    RULED_OUT: "diff: a change matches --fail-on",
    NO_ANSWER: "diff, batch watch, batch submit --wait: failed without an answer (1 is an answer there)",
    INPUT_REJECTED: "batch watch, batch submit --wait: the input was rejected; another try ends in the same way",
    INTERRUPTED: "interrupted",
}


class UserError(Exception):
    """Something a user can act on. `message` says what failed and why, `hints` what to type next."""

    exit_code = FAILED

    def __init__(self, message: str, *, hint: str | Sequence[str] = (), exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hints: tuple[str, ...] = tuple(one for one in ([hint] if isinstance(hint, str) else hint) if one)
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(UserError):
    """Flags, a spec file or a kubeconfig are invalid; nothing was attempted."""

    exit_code = USAGE


class RiskyPlanError(UserError):
    """A plan may not run, and the user has not accepted that."""


def not_written(path: Path, error: OSError, note: str = "") -> UserError:
    """The error for a file or a directory that cannot be written. The hint shows who may write where it would be."""
    there = next(one for one in (path, *path.absolute().parents) if os.path.exists(one))  # noqa: PTH110  never raises
    reason = (error.strerror or str(error)).lower()
    return UserError(f"{path} cannot be written: {reason}{note}", hint=f"ls -ld {there}")


class OutageError(UserError):
    """A change would make a running service unavailable, and the user has not accepted that."""


class WaitTimeoutError(UserError):
    """The deadline passed before the wanted state was seen."""

    exit_code = TIMED_OUT


class ConflictError(UserError):
    """Another client changes the same object."""

    exit_code = CONFLICT


class FieldConflictError(ConflictError):
    """Server-side apply found another owner of fields that would change; it can be forced."""


class ClusterError(UserError):
    """The API server is unreachable, or denies the credentials or the permissions."""

    exit_code = CLUSTER
