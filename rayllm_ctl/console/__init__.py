"""The only room that draws on a terminal."""
