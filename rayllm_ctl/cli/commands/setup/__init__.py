"""The cluster and the tool itself."""
