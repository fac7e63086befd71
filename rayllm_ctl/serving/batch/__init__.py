"""Offline batch: one output row for each input row. The driver runs on the head of a RayJob's cluster."""
