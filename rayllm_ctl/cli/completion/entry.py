"""How a process is asked for completions, before anything else is imported."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rayllm_ctl.cli.completion import COMPLETION_VARIABLE


def complete_for_shell() -> bool:
    """Print completions if a completion script asks for them. Return whether one does."""
    instruction = os.environ.get(COMPLETION_VARIABLE)
    if not instruction:
        return False
    from rayllm_ctl.cli.completion.answer import answer_shell

    answer_shell(instruction)
    return True


def complete_for_plugin(words: Sequence[str]) -> None:
    """Print completions of the last of `words`, for kubectl."""
    from rayllm_ctl.cli.completion.answer import answer_kubectl

    answer_kubectl(words)
