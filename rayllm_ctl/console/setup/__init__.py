"""Findings of `check` as text."""
