"""What stands in for GPUs in the serving image: an engine without arithmetic, and the `ray` command that chooses it."""
