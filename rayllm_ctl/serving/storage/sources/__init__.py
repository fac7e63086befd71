"""Where models are downloaded from."""
