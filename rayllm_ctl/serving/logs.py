"""Where our logs go: to that of Ray Serve, in its format and its files."""

from __future__ import annotations

import logging

GATEWAY = "rayllm.gateway"
GENERATION = "rayllm.generation"
SERVE = "ray.serve"


def to_serve(name: str) -> None:
    """Let a log be part of Serve's, whose handlers change while a replica runs."""
    logging.getLogger(name).parent = logging.getLogger(SERVE)


class ServeAccessLog:
    """Serve's own line about every request of the ingress, which is left out while the gateway writes one.

    Its lines about ingress replicas that ask each other for their load every second are always left out.
    """

    def __init__(self) -> None:
        self.enabled = True
        logging.getLogger(SERVE).addFilter(self.shows)

    def shows(self, record: logging.LogRecord) -> bool:
        """Whether a record of Serve's log is written."""
        if not getattr(record, "serve_access_log", False):
            return True
        return self.enabled and not record.getMessage().startswith("CALL report ")
