"""Bundles: what was seen of a service, as files."""
