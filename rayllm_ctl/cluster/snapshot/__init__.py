"""Reads: all that a diagnosis looks at, collected in a few rounds of requests."""
