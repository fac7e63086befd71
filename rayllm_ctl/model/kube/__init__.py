"""Conventions of Kubernetes and KubeRay: kinds, labels, names, quantities, versions."""
