"""Ray's dashboard at a local port: what is forwarded, and to whom."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import urllib3

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.cluster.forward.dashboard import Forwarder
from rayllm_ctl.cluster.ray.dashboard import Dashboard
from rayllm_ctl.errors import UsageError
from tests.cluster.fakeapi import FakeAPI

ROOT = "services/tiny-head-svc:dashboard/proxy"


@pytest.fixture
def forwarder(cluster: Cluster) -> Iterator[Forwarder]:
    with Forwarder(Dashboard(cluster, "llm", "tiny-head-svc", (("x-ray-authorization", "Bearer t"),)), 0) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


def get(server: Forwarder, path: str, method: str = "GET", **headers: str) -> urllib3.BaseHTTPResponse:
    with urllib3.PoolManager() as pool:
        return pool.request(method, server.url + path, headers=headers, body=b"{}" if method == "POST" else None)


def test_requests_go_to_the_dashboard_with_the_credentials(api: FakeAPI, forwarder: Forwarder) -> None:
    api.answer("GET", f"{ROOT}/api/jobs/$", (200, {"jobs": []}))
    assert get(forwarder, "/api/jobs/?limit=2").json() == {"jobs": []}
    request = api.requests[-1]
    assert request.query == {"limit": "2"}
    assert request.headers["Authorization"] == "Bearer s3cret-token"
    assert request.headers["x-ray-authorization"] == "Bearer t"


def test_links_that_the_api_server_rewrote_are_followed(api: FakeAPI, forwarder: Forwarder) -> None:
    api.answer("GET", f"{ROOT}/static/main.js$", (200, {"js": True}))
    path = f"/api/v1/namespaces/llm/{ROOT}/static/main.js"
    assert get(forwarder, path).json() == {"js": True}


def test_the_answer_keeps_its_status(api: FakeAPI, forwarder: Forwarder) -> None:
    api.answer("POST", f"{ROOT}/api/jobs/$", (422, {"error": "no"}))
    answer = get(forwarder, "/api/jobs/", "POST", Origin=forwarder.url)
    assert (answer.status, answer.json()) == (422, {"error": "no"})


@pytest.mark.parametrize("header", [{"Origin": "http://evil.example"}, {"Host": "evil.example:8265"}])
def test_web_pages_of_other_origins_get_nothing(api: FakeAPI, forwarder: Forwarder, header: dict[str, str]) -> None:
    api.answer("POST", f"{ROOT}/api/jobs/$", (200, {}))
    api.requests.clear()
    assert get(forwarder, "/api/jobs/", "POST", **header).status == 403
    assert api.requests == []


def test_a_port_in_use_is_said(cluster: Cluster, forwarder: Forwarder) -> None:
    with pytest.raises(UsageError, match="cannot be used"):
        Forwarder(Dashboard(cluster, "llm", "tiny-head-svc"), forwarder.server_port)
