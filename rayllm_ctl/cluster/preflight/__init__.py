"""Whether the cluster can take a service, and what it lacks."""
