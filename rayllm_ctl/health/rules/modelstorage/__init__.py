"""Rules of the storage of models, and of the caches beside it."""
