"""Reads the command line: global flags, the forms of flags that kubectl takes, and errors that name what was typed."""
