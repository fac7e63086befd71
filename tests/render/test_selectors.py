"""Selectors and references to Services in what is rendered: each finds what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.render import render
from rayllm_ctl.specfile import load_file
from rayllm_ctl.workflows.plan.model import make_plan
from tests.render.selectors import unmatched
from tests.render.test_specs import SPECS


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_every_selector_finds_its_pods(spec: Path) -> None:
    assert unmatched(render(make_plan(load_file(spec), OFFLINE))) == []


def test_a_selector_of_another_service_is_reported() -> None:
    policy = {"kind": "NetworkPolicy", "metadata": {"name": "a"}}
    policy["spec"] = {"podSelector": {"matchLabels": {"rayllm.io/service": "b"}}}
    assert unmatched([policy]) == ["NetworkPolicy/a selects no pod: {'rayllm.io/service': 'b'}"]
