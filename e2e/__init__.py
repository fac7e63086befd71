"""A real Kubernetes on one machine, the images that run on it, and the tests that use both."""
