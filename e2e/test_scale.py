"""A thousand services and ten thousand pods: what `status -A` and `watch` ask of the API server does not grow with
their number. benches/bench_scale.py measures what that takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from e2e.counting import counted
from e2e.crowd import make_pods, make_services
from e2e.harness import OWN_CLUSTER, Bench, Target, rig
from e2e.simulated import schedule_on_simulated_nodes

pytestmark = [
    pytest.mark.xdist_group("scale"), pytest.mark.slow, pytest.mark.alone, pytest.mark.incremental,
]  # fmt: skip

FEW, SERVICES, MANY, PODS = 5, 200, 1_000, 10_000
WATCHED = "watched"
"""The service that is watched: it runs on simulated nodes, with a Serve that answers."""


@pytest.fixture(scope="module")
def crowd(simulated_nodes: Target, shared: Bench) -> Iterator[Bench]:
    """A namespace with a service that serves, on simulated nodes, and a few that say so."""
    assert shared.target is simulated_nodes
    schedule_on_simulated_nodes(shared)
    shared.run(*shared.tiny(WATCHED))
    make_services(shared, range(FEW))
    yield shared
    # Faster than to delete what was made, which takes the API server most of a minute.
    rig("down")
    rig("up", *OWN_CLUSTER)


def test_status_of_200_services_takes_as_many_requests_as_of_few(crowd: Bench, tmp_path: Path) -> None:
    with counted(crowd, tmp_path) as (bench, requests):
        few = bench.run("status", "-A", "-o", "json", code=None)
        asked_for_few = len(requests)
        make_services(crowd, range(FEW, SERVICES))
        requests.clear()
        many = bench.run("status", "-A", "-o", "json", code=None)
    ours = [[row for row in each.json()["items"] if row["namespace"] == bench.namespace] for each in (few, many)]
    assert [len(rows) for rows in ours] == [FEW + 1, SERVICES + 1]
    assert len(requests) == asked_for_few, sorted(requests)


def test_watching_one_service_asks_for_nothing_of_a_thousand_others(crowd: Bench, tmp_path: Path) -> None:
    make_services(crowd, range(SERVICES, MANY))
    make_pods(crowd, PODS, MANY)
    with counted(crowd, tmp_path) as (bench, requests):
        bench.start("watch", WATCHED, "-n", bench.namespace)
        bench.wait("watch has looked twice", lambda: len(requests) > 40, timeout=300)
        asked = [unquote(request) for request in list(requests)]
    told = re.compile(rf"/namespaces/{crowd.namespace}/(rayservices|rayclusters|pods|services|endpointslices|events)\b")
    of_services = [request for request in asked if told.search(request)]
    assert of_services
    assert [request for request in of_services if not re.search(rf"{WATCHED}\b", request)] == []
    assert [request for request in asked if "/pods?" in request and "Selector=" not in request] == []
