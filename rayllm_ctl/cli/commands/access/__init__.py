"""Ways to a service."""
