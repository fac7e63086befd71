"""From a service and its plan to manifests."""
