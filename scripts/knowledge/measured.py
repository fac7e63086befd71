"""Which releases of vLLM a start-up log was compared with, and which ones are marked as not measured."""

from __future__ import annotations

import json
from pathlib import Path

from rayllm_ctl.catalog import engines

_DATA = Path(__file__).resolve().parents[2] / "tests" / "data"


def measured() -> set[str]:
    """The releases of the catalog that rows of measured.json are of."""
    rows = json.loads((_DATA / "measured.json").read_text(encoding="utf-8"))
    found = {engines.engine(str(row["vllm"])).release for row in rows if row["vllm"]}
    return {version for version in engines.engine_versions() if engines.engine(version).release in found}


def marked() -> list[str]:
    """The releases that are marked as not measured."""
    releases: list[str] = json.loads((_DATA / "unmeasured.json").read_text(encoding="utf-8"))["notMeasured"]
    return releases


def without_a_mark() -> list[str]:
    """The releases of the catalog that are neither measured nor marked."""
    known = measured() | set(marked())
    return [version for version in engines.engine_versions() if version not in known]
