"""Errors of local ports."""

from __future__ import annotations

from rayllm_ctl.errors import UsageError


def unusable_port(port: int, error: OSError) -> UsageError:
    """The error for a port that cannot be opened."""
    return UsageError(
        f"port {port} of this machine cannot be used: {error.strerror}", hint="--port 0    # any free port"
    )
