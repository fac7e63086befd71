"""Ray and Serve of a live service: dashboard, metrics, queue."""
