"""Completion: what the TAB key offers."""
