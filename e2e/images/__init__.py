"""Container images that the end-to-end tests run, built without a container engine."""
