"""Reads: the input of a diagnosis, collected in a few rounds of requests."""
