"""What the manifests of a plan say: applications, pods, ways in."""
