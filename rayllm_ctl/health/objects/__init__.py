"""Objects of a Snapshot as the rules read them."""
