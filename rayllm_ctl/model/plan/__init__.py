"""What was planned, and the facts that plans are made from."""
