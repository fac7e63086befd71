"""Local ports forwarded to pods."""
