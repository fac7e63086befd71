"""Rules of pods that wait for a node, and of nodes that are lost."""
