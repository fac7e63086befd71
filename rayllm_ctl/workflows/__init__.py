"""Use cases without flags: they join the rooms below and yield events."""
