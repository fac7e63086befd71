"""Vision encoders with their projectors, by kind."""
