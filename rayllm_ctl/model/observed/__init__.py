"""The observed state of a cluster: health, events, metrics, changes."""
