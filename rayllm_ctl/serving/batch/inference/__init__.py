"""From rows to answers: the Ray Data pipeline, its stages, and what an engine is asked."""
