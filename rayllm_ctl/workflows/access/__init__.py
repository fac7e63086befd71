"""Access to a service: chat, addresses, forwarded ports, API keys."""
