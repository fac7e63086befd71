"""Bodies of requests: endpoints and their fields, prompts and their tokens, and the OpenAPI document of all that."""
