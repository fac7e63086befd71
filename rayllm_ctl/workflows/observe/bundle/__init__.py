"""Bundles: the recorded state of a service, as files."""
