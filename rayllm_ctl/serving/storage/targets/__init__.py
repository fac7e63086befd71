"""Where models are downloaded to."""
