"""LLMService and BatchJob as the user specifies them, in spec files or flags."""
