"""Tokens per second, from counters that are read repeatedly."""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass

_UNCHANGED = 1.5
"""Report intervals after which a counter that has not changed counts as unchanged in a report."""

Rate = tuple[float, float]
"""Tokens of prompts and generated tokens, per second."""


@dataclass(frozen=True)
class _Counted:
    """read_at: when it was read; since: when this value was first read."""

    prompt: float
    generated: float
    read_at: float
    since: float
    rate: Rate | None


class TokenRates:
    """The rates of replicas. A replica needs two readings.

    A counter that Ray exports changes once in a report interval: between two readings it has changed by nothing, or by
    the tokens of a whole interval. So a change is divided by the interval, and the rate holds until the next one.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Counted] = {}

    def rate(self, replica: str, prompt: float, generated: float, now: float, interval: float | None) -> Rate | None:
        """The rate of `replica`; None while it is not known. now: seconds of a clock.

        interval: seconds between two reports of Ray, more than between two readings; None: the counters are as of now.
        """
        before = self._known.get(replica)
        since, rate = now, None
        if before is not None:
            more = (prompt - before.prompt, generated - before.generated)
            if more == (0.0, 0.0):
                since = before.since
                waits = interval is not None and now - since < _UNCHANGED * interval
                rate = before.rate if waits else (0.0, 0.0)
            elif min(more) >= 0:  # else the engine has started again
                seconds = now - before.read_at
                if interval is not None:
                    seconds = max(1, round(seconds / interval)) * interval
                rate = (more[0] / seconds, more[1] / seconds)
        self._known[replica] = _Counted(prompt, generated, now, since, rate)
        return rate
