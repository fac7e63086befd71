"""Rate limits: the windows, in this process or in a Redis, and what is counted in them."""
