from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.errors import UserError
from rayllm_ctl.workflows.render.manifests import manifests
from tests.render.plans import H100, plan
from tests.render.test_render import GPU


def test_manifests_are_checked_against_the_schema_of_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = plan(GPU, H100)
    [rendered] = manifests(planned)
    damaged = {**rendered, "spec": {**rendered["spec"], "serveConfigV3": ""}}
    monkeypatch.setattr("rayllm_ctl.workflows.render.manifests.render", lambda *_: [damaged])
    with pytest.raises(UserError, match=r"RayService qwen: spec\.serveConfigV3: unknown field"):
        manifests(planned)


def test_kinds_without_a_schema_are_left_to_the_api_server(monkeypatch: pytest.MonkeyPatch) -> None:
    route: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Route", "metadata": {"name": "x"}, "spec": {}}
    monkeypatch.setattr("rayllm_ctl.workflows.render.manifests.render", lambda *_: [route])
    assert manifests(plan(GPU, H100)) == [route]
