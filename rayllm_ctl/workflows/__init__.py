"""One use case per command, without flags; each yields events."""
