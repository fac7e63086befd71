"""The Kubernetes API: connection, credentials, requests, watches, errors."""
