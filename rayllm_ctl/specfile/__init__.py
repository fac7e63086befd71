"""From a file to the model and back to a JSON schema."""
