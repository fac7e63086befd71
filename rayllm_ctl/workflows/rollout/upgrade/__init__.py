"""How a change reaches running pods: in place, with more replicas, with fewer, or in a second RayCluster."""
