"""Plans and catalog facts as text."""
