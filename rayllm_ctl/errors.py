"""Errors for users: what failed and why, and what to type next.

Exit codes (the one table; `rayllm-ctl --help` prints it):

0  done
1  failed, or the answer is no (does not fit, not healthy, rejected by the cluster); of diff: there are differences
2  usage: flags, spec file or kubeconfig are invalid; nothing was attempted
3  timed out while waiting; the service may still become ready; for diff and a batch job with --wait: it failed
4  conflict: another client owns or has changed the same fields
5  the cluster is unreachable, or denies the credentials or the permissions
6  diff only: a change matches --fail-on
124  batch only: timed out while waiting; the job keeps running
130  interrupted
"""

from __future__ import annotations

from collections.abc import Sequence

OK = 0
FAILED = 1
USAGE = 2
TIMED_OUT = 3
CONFLICT = 4
CLUSTER = 5
RULED_OUT = 6
BATCH_TIMED_OUT = 124
"""As in timeout(1): lower numbers describe how the job itself ended."""
INTERRUPTED = 130

BATCH_FAILED = TIMED_OUT
"""As in the driver of a batch job: 1 means that too many rows have an error, 2 that the input was rejected."""

DIFFERS = FAILED
DIFF_FAILED = TIMED_OUT
"""As in kubectl diff, 1 means that there are differences, and failures are greater than 1."""

EXIT_CODES: dict[int, str] = {
    OK: "done",
    FAILED: "failed, or the answer is no (does not fit, not healthy, rejected by the cluster); diff: differences",
    USAGE: "usage: flags, spec file or kubeconfig are invalid; nothing was attempted",
    TIMED_OUT: "timed out while waiting; the service may still become ready; diff, batch watch: failed",
    CONFLICT: "conflict: another client owns or has changed the same fields",
    CLUSTER: "the cluster is unreachable, or denies the credentials or the permissions",
    RULED_OUT: "diff only: a change matches --fail-on",
    BATCH_TIMED_OUT: "batch watch, submit --wait: timed out while waiting; the job keeps running",
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
