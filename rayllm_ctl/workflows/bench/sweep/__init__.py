"""Sweeps: variants of a service, measured one after another."""
