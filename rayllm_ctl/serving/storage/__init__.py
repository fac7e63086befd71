"""Downloads of models into volumes and buckets, and the wait of serving pods for them."""
