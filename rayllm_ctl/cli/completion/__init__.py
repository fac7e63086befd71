"""Completion: what the TAB key offers."""

COMPLETION_VARIABLE = "_RAYLLM_CTL_COMPLETE"
"""Set by the completion scripts: which shell asks."""
