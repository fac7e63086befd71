"""The settings of an engine: memory, parallelism, arguments."""
