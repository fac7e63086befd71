"""What a user wants: LLMService and BatchJob, as spec files and flags state them."""
