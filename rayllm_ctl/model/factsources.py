"""Where the facts of a plan come from."""

from __future__ import annotations

from pathlib import Path

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class FactSources:
    """model_config: config.json of the model, or its folder; of several models a folder with a folder for each, called
    by its short name. offline: no network. prices: the user's GPU prices.
    """

    model_config: Path | None = None
    offline: bool = False
    prices: Path | None = None


OFFLINE = FactSources(offline=True)
