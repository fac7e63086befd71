"""Plans, spec files, and the catalog of models and GPUs."""
