"""Every release of vLLM in the catalog was compared with a start-up log, or is marked as not measured."""

from __future__ import annotations

from rayllm_ctl.catalog.engines import engine_versions
from scripts.knowledge.measured import marked, measured, without_a_mark


def test_a_release_is_measured_or_marked() -> None:
    assert without_a_mark() == [], "a row in tests/data/measured.json, or a line in tests/data/unmeasured.json"


def test_a_mark_is_for_a_release_that_the_catalog_has_and_no_log_is_of() -> None:
    assert set(marked()) <= set(engine_versions()) - measured()
    assert len(marked()) == len(set(marked()))
