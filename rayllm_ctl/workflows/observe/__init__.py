"""The state of services: status, wait, events, logs, top, bundle."""
