"""Services and batch jobs by name."""
