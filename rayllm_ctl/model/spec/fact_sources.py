"""The sources of a plan's facts."""

from __future__ import annotations

from pathlib import Path

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True, kw_only=True)
class FactSources:
    """model_config: config.json of the model, or its folder; of several models a folder with a folder for each, called
    by its short name. from_hub: the Hugging Face cache and hub, and not the catalog. offline: no network. named_only:
    nothing of this machine or the network that is not named, so that the answer is the same everywhere. prices: the
    user's GPU prices.
    """

    model_config: Path | None = None
    offline: bool = False
    from_hub: bool = False
    named_only: bool = False
    prices: Path | None = None


OFFLINE = FactSources(offline=True)
