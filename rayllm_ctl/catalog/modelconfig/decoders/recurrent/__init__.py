"""Architectures some of whose layers keep a state: Mamba, delta nets, lightning attention."""
