"""The controller ends at each of its requests, before and after it is sent: the end is the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rayllm_ctl.cluster.api.errors import api_error
from rayllm_ctl.controller import observe
from rayllm_ctl.errors import UserError
from tests.cluster.interruption import BROKEN, Interruption
from tests.controller.conftest import MIRROR, Controlled, complete_downloads, provide_storage

ROUNDS = 5
"""Looks after which nothing more is to be done."""


def _settle(controlled: Controlled) -> None:
    """Look until nothing changes, as another process after each failure, while KubeRay does its part."""
    for _ in range(ROUNDS):
        try:
            controlled.step()
        except UserError:
            controlled.restart()
        if "tiny" in controlled.api.names("RayService"):
            controlled.run()
        complete_downloads(controlled.api)


def _state(controlled: Controlled) -> dict[str, Any]:
    """What there is in the end, without what differs from run to run."""
    found = {}
    for (kind, _, name), item in controlled.api._objects.items():
        if kind in ("Node", "Deployment", "Namespace"):
            continue
        content = {key: value for key, value in item.items() if key in ("spec", "data")}
        text = json.dumps(content, sort_keys=True)
        found[f"{kind}/{name}"] = text if kind != "LLMService" else _conditions(item)
    return found


def _conditions(item: dict[str, Any]) -> str:
    return json.dumps([(one["type"], one["status"], one["reason"]) for one in item["status"]["conditions"]])


def _scenario(controlled: Controlled, interruption: Interruption, step: str) -> dict[str, Any]:
    """A service is created, changed with a surge, at a price that is accepted, and with a second RayCluster; or it is
    created and changed with a download of its model. The last of these steps is interrupted.
    """
    at, interruption.at = interruption.at, None
    for name in ("create", "download") if step == "download" else STEPS:
        STEPS[name](controlled)
        if name == step:
            interruption.at, interruption.count = at, 0
        _settle(controlled)
        if name == step:
            interruption.at, interrupted = None, interruption.count
            _settle(controlled)
            interruption.count = interrupted
            break
    return _state(controlled)


def _create(controlled: Controlled) -> None:
    controlled.put()


def _surge(controlled: Controlled) -> None:
    controlled.put(engine={"args": {"seed": 7}})


def _consent(controlled: Controlled) -> None:
    controlled.api.remove("Node", "n1", "")
    generation = controlled.api.stored("LLMService", "tiny")["metadata"]["generation"] + 1
    controlled.put(annotations={"rayllm.io/accept": str(generation)}, engine={"args": {"seed": 8}})


def _second_cluster(controlled: Controlled) -> None:
    controlled.put(rollout="new-cluster", engine={"args": {"seed": 9}})


def _download(controlled: Controlled) -> None:
    provide_storage(controlled.api)
    controlled.put(rollout="new-cluster", storage=MIRROR)


STEPS = {
    "create": _create, "surge": _surge, "consent": _consent, "new-cluster": _second_cluster, "download": _download,
}  # fmt: skip

ERRORS = {
    "connection": BROKEN,
    "conflict": api_error(409, b'{"kind":"Status","reason":"Conflict","message":"modified"}', doing="patch"),
    "gone": api_error(410, b'{"kind":"Status","reason":"Expired","message":"expired"}', doing="list"),
    "busy": api_error(429, b'{"kind":"Status","reason":"TooManyRequests","message":"busy"}', doing="patch"),
    "failing": api_error(500, b'{"kind":"Status","reason":"InternalError","message":"internal"}', doing="patch"),
}


CASES = [("connection", step) for step in STEPS] + [(error, "surge") for error in ERRORS if error != "connection"]


@pytest.mark.parametrize("sent", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("error", "step"), CASES)
def test_the_end_is_the_same(
    controlled: Controlled, monkeypatch: pytest.MonkeyPatch, error: str, step: str, sent: bool
) -> None:
    monkeypatch.setattr(observe, "FULL_SECONDS", (0.0, 0.0))  # between two rounds no time passes here
    interruption = Interruption(monkeypatch, ERRORS[error])
    empty = controlled.api.saved()
    expected = _scenario(controlled, interruption, step)
    requests = interruption.count
    assert requests > 5
    interruption.sent = sent
    for at in range(requests):
        controlled.api.restore(empty)
        controlled.restart()
        interruption.at = at
        assert _scenario(controlled, interruption, step) == expected, f"request {at}"
