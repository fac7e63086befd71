"""Models that see or hear: where their text model stands in the config, and what their encoders hold."""

from __future__ import annotations

from rayllm_ctl.catalog.modelconfig.builder import Builder
from rayllm_ctl.catalog.modelconfig.fields import Fields
from rayllm_ctl.model.facts import Tower


def text_part(name: str, config: Fields) -> tuple[str, Fields]:
    """The text architecture and its part of the config."""
    return name, config


def towers(name: str, config: Fields, hidden: int, builder: Builder) -> tuple[Tower, ...]:
    """The encoders of a model, with their projectors."""
    return ()
