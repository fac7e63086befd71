"""Checks of spec.storage.model and spec.storage.caches, and of what contradicts them."""
