"""What can go wrong with the local cluster, said to a person."""

from __future__ import annotations


class RigError(Exception):
    """The local cluster cannot do what was asked: `message` says what failed and why, `hint` what to type next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
