"""Rules of batch jobs."""
