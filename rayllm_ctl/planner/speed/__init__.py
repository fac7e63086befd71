"""How fast a plan is, how long it starts, and what it costs."""
