"""Changes to services, and their history."""
