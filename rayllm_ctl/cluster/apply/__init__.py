"""Writes: server-side apply, bounds, revisions, deletion."""
