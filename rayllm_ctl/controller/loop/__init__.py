"""The loop of the controller: queue, workers, Lease, probes, metrics, log. It knows no specs, plans and manifests."""
