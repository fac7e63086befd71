"""What all tests need, those in tests/ and those in e2e/."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Take interrupts as usual: a run in the background ignores them, and so would the commands that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
