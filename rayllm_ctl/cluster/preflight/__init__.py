"""Checks of a cluster before a service is applied."""
