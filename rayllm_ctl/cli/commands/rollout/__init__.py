"""Changes of services, and their history."""
