"""Load tests: parameters and results."""
