"""The logs of services."""
