"""Plans of batch jobs."""
