"""Runs inside the Ray pods; imports nothing of the rest."""
