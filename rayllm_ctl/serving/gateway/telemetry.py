"""What operators are told: one line of JSON per request, and counters. Neither has prompts, answers or keys."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from rayllm_ctl.serving.gateway.steps import Metric

REQUESTS = Metric("rayllm_gateway_requests", "Requests by outcome.", ("key", "model", "outcome"))
RETRIES = Metric("rayllm_gateway_retries", "Requests sent again because their replica was lost.", ("key", "model"))
PROMPT_TOKENS = Metric("rayllm_gateway_prompt_tokens", "Tokens of prompts.", ("key", "model"))
OUTPUT_TOKENS = Metric("rayllm_gateway_output_tokens", "Tokens of answers.", ("key", "model"))
OVERHEAD = Metric(
    "rayllm_gateway_overhead_seconds",
    "Time from a request until the application gets it.",
    ("model",),
    (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5),
)

_OUTCOMES = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    413: "too_large",
    429: "limited",
    499: "disconnected",
    503: "unavailable",
}
"""Names of outcomes; 499 is the status that proxies log for a client that went away."""

access = logging.getLogger("rayllm.gateway.access")

_ACCESS = {"serve_access_log": True}
"""The mark of what Serve's logging_config.enable_access_log switches off."""


class NoMetrics:
    """Drops all figures."""

    def add(self, metric: Metric, value: float, labels: Sequence[str]) -> None:
        """Nothing."""


def outcome(status: int) -> str:
    """The outcome of a request, as label and in the log."""
    if status < 400:
        return "ok"
    return _OUTCOMES.get(status) or ("invalid" if status < 500 else "error")


def log_access(record: dict[str, object]) -> None:
    """One line; fields without a value are left out."""
    if access.isEnabledFor(logging.INFO):
        text = json.dumps({name: value for name, value in record.items() if value not in (None, "")})
        access.info(text, extra=_ACCESS)
