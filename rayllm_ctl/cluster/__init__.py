"""The only room that talks to the Kubernetes API."""
