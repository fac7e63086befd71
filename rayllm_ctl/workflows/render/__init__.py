"""From plans and Serve configuration files to manifests."""
