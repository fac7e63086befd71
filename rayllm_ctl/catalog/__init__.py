"""Facts of models, GPUs and engines, and where they come from."""
