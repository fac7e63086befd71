"""The cluster and the tool itself: checks, rights, versions."""
