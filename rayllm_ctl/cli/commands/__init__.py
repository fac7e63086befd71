"""Commands, in folders by topic. Each is a module with an attribute `command`."""
