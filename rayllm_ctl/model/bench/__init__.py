"""Load tests: what they are to do, and their results."""
