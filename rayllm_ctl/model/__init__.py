"""Pure data: specs, plans and observed state. No I/O, no third-party imports."""
