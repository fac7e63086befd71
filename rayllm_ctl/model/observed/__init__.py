"""What was seen of a cluster: health, events, metrics, changes."""
