"""Storage of models: what a cluster must have for it, and the Jobs that fill it, before a service or job is applied."""
