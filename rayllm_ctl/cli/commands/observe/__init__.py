"""The state of services."""
