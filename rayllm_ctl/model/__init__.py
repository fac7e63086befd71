"""Pure data: what the user wants, what was planned, how it is. No I/O, no third-party imports."""
