"""One use case per command; each yields events."""
