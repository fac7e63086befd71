"""Health, progress, events and load as text."""
