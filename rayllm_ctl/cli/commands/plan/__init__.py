"""What fits where, and spec files to start from."""
