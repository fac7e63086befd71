"""The only package that draws on a terminal."""
