"""Differences and history as text."""
