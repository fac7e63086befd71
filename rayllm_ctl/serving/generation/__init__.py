"""Text generation with the transformers library: it needs torch and transformers, and nothing of Ray."""
