"""Plans, and the facts that they are made from."""
