"""Architectures of attention alone that need code of their own, a module each."""
