"""The controller: LLMService objects of the cluster to the objects that run them, again whenever something changes."""
