"""Pure readers: objects in, health out."""
