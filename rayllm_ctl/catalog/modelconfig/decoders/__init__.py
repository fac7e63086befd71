"""One module per kind of architecture; registry.py names which reader knows which architecture."""
