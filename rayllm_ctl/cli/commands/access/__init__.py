"""Access to a service."""
