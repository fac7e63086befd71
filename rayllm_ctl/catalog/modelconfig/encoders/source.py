"""What the encoders of a row are read from."""

from __future__ import annotations

from typing import NamedTuple

from rayllm_ctl.catalog.modelconfig.builder import Builder
from rayllm_ctl.catalog.modelconfig.fields import Fields


class EncoderSource(NamedTuple):
    """Where a row finds things: the whole config, its vision part, the decoder's hidden size, the builder."""

    config: Fields
    vision: Fields
    hidden: int
    builder: Builder
