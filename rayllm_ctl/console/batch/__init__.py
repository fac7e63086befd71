"""Batch jobs as text."""
