"""Upgrade strategies: in place, with more or fewer replicas, or with a second RayCluster."""
