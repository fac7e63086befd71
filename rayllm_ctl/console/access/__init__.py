"""API keys as text."""
