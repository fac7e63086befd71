"""Checks of specs by themselves, before any model, file or cluster is read."""
