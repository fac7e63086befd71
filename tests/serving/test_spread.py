"""Other code of the ingress is taken up once its workers have it, with a stand-in for Ray."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rayllm_ctl.serving.shipped import VARIABLE, WAIT_SECONDS


class GetTimeoutError(Exception):
    """Ray's."""


class Looks:
    """What is asked of Ray: where functions ran, and for how long they were waited for."""

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.waits: list[float] = []
        self.late = False

    def remote(self, **options: Any) -> Any:
        assert options == {"num_cpus": 0}

        def options_of(*, scheduling_strategy: tuple[str, bool]) -> Any:
            return SimpleNamespace(remote=lambda: self.nodes.append(scheduling_strategy[0]))

        return lambda _: SimpleNamespace(options=options_of)

    def get(self, looks: list[None], timeout: float) -> None:
        self.waits.append(timeout)
        if self.late:
            raise GetTimeoutError


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    made = Looks()
    ray, exceptions = ModuleType("ray"), ModuleType("ray.exceptions")
    util, strategies = ModuleType("ray.util"), ModuleType("ray.util.scheduling_strategies")
    nodes = [
        {"NodeID": "head", "Alive": True, "Resources": {"CPU": 0.0}},
        {"NodeID": "ingress", "Alive": True, "Resources": {"rayllm-ingress": 1.0}},
        {"NodeID": "lost", "Alive": False, "Resources": {"rayllm-ingress": 1.0}},
        {"NodeID": "gpu", "Alive": True, "Resources": {"GPU": 8.0}},
    ]
    vars(ray).update(nodes=lambda: nodes, remote=made.remote, get=made.get)
    vars(exceptions)["GetTimeoutError"] = GetTimeoutError
    vars(strategies)["NodeAffinitySchedulingStrategy"] = lambda node, soft: (node, soft)
    for module in (ray, exceptions, util, strategies):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    yield made
    sys.modules.pop("rayllm_ctl.serving.spread", None)


def wait_for_nodes() -> None:
    importlib.import_module("rayllm_ctl.serving.spread").wait_for_nodes()


def test_the_workers_of_the_ingress_are_waited_for(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0123")
    wait_for_nodes()
    assert (looks.nodes, looks.waits) == (["ingress"], [WAIT_SECONDS])


def test_nothing_is_waited_for_where_the_code_is_in_the_image(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    wait_for_nodes()
    assert looks.waits == []


def test_a_worker_that_is_late_is_not_waited_for_longer(
    looks: Looks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks.late = True
    monkeypatch.setenv(VARIABLE, "0123")
    wait_for_nodes()
    assert "Some nodes do not have the code of the ingress yet" in caplog.text
