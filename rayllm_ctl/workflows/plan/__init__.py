"""From a service to its plan, and spec files to start from."""
