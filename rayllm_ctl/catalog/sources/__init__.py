"""Where a model's facts come from: the user's file, a folder, the Hugging Face cache, the hub, the catalog."""

from __future__ import annotations

from rayllm_ctl.catalog.sources.find import find
from rayllm_ctl.catalog.sources.found import FoundModel

__all__ = ["FoundModel", "find"]
