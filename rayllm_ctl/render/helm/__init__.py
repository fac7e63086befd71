"""Manifests as a Helm chart."""
