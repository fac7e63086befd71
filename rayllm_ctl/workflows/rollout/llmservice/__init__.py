"""Services that an LLMService declares: commands change that object, and the controller its children."""
