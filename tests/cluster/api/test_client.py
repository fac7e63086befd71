from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rayllm_ctl.cluster import Cluster, connect
from rayllm_ctl.cluster.api.errors import NotFoundError, ServerFailingError, UnauthorizedError, UnreachableError
from rayllm_ctl.errors import ClusterError
from tests.cluster.fakeapi import FakeAPI, Request, status
from tests.cluster.fakehttp import kubeconfig


def test_importing_the_room_imports_no_client_library() -> None:
    code = "import sys, rayllm_ctl.cluster; print([m for m in ('kubernetes', 'urllib3', 'yaml') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_connecting_asks_nothing(api: FakeAPI, cluster: Cluster) -> None:
    assert (cluster.namespace, cluster.context, cluster.user, cluster.server) == ("llm", "test", "alice", api.url)
    assert api.requests == []


def test_get_sends_the_token_and_our_name(api: FakeAPI, cluster: Cluster) -> None:
    api.put(kind="ConfigMap", metadata={"name": "a"}, data={"k": "v"})
    assert cluster.get("ConfigMap", "a", "llm")["data"] == {"k": "v"}
    headers = api.requests[0].headers
    assert headers["Authorization"] == "Bearer s3cret-token"
    assert headers["User-Agent"].startswith("rayllm-ctl/")


def test_an_object_that_is_not_there(cluster: Cluster) -> None:
    with pytest.raises(NotFoundError) as caught:
        cluster.get("ConfigMap", "a", "llm")
    assert caught.value.about == "configmaps"


def test_a_kind_that_is_not_installed_tells_itself_from_a_missing_object(api: FakeAPI, cluster: Cluster) -> None:
    api.installed -= {"RayService"}
    with pytest.raises(NotFoundError) as caught:
        cluster.get("RayService", "a", "llm")
    assert caught.value.about == ""


def test_lists_are_read_page_by_page_and_items_get_their_kind(api: FakeAPI, cluster: Cluster) -> None:
    api.page_limit = 2
    for name in "abcde":
        api.put(kind="ConfigMap", metadata={"name": name})
    items = cluster.list("ConfigMap", "llm")
    assert [item["metadata"]["name"] for item in items] == list("abcde")
    assert {(item["kind"], item["apiVersion"]) for item in items} == {("ConfigMap", "v1")}
    assert len(api.requests) == 3


def test_a_page_token_that_went_stale_starts_again_without_pages(api: FakeAPI, cluster: Cluster) -> None:
    api.page_limit = 1
    for name in "abc":
        api.put(kind="ConfigMap", metadata={"name": name})

    def stale(request: Request) -> tuple[int, object] | None:
        return status(410, "continue token expired", "Expired") if "continue" in request.query else None

    api.answer("GET", "configmaps", stale)
    assert len(cluster.list("ConfigMap", "llm")) == 3


def test_long_lists_come_compressed(api: FakeAPI, cluster: Cluster) -> None:
    api.put(kind="ConfigMap", metadata={"name": "a"}, data={"k": "x" * 200_000})
    assert len(cluster.list("ConfigMap", "llm")[0]["data"]["k"]) == 200_000
    assert api.requests[0].headers["Accept-Encoding"] == "gzip"


def test_all_namespaces_and_selectors(api: FakeAPI, cluster: Cluster) -> None:
    api.put(kind="Pod", metadata={"name": "a", "namespace": "x", "labels": {"app": "one"}})
    api.put(kind="Pod", metadata={"name": "b", "namespace": "y", "labels": {"app": "two"}})
    assert [pod["metadata"]["name"] for pod in cluster.list("Pod", label_selector="app in (two,three)")] == ["b"]
    assert api.requests[0].path == "/api/v1/pods"


def test_a_refused_token_names_user_and_context_and_shows_no_token(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", ".", status(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(UnauthorizedError) as caught:
        cluster.server_version()
    assert 'rejected the credentials of user "alice" (context "test")' in caught.value.message
    assert "s3cret" not in caught.value.message + "".join(caught.value.hints)


def test_a_busy_server_is_asked_again(api: FakeAPI, cluster: Cluster) -> None:
    busy = status(429, "too many requests", "TooManyRequests")
    api.answer("GET", "/version", (429, {**busy[1], "headers": {"Retry-After": "0"}}), times=2)
    assert cluster.server_version() == "v1.36.2"
    assert len(api.requests) == 3


def test_a_server_that_stays_busy_is_an_error(api: FakeAPI, cluster: Cluster) -> None:
    busy = status(429, "too many requests", "TooManyRequests")
    api.answer("GET", "/version", (429, {**busy[1], "headers": {"Retry-After": "0"}}))
    with pytest.raises(ServerFailingError):
        cluster.server_version()
    assert len(api.requests) == 3


def test_a_connection_that_was_closed_in_between_is_made_anew_for_reading(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "/version", (0, b""), times=1)
    assert cluster.server_version() == "v1.36.2"
    assert len(api.requests) == 2


def test_writes_are_never_sent_twice(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("POST", "configmaps", (0, b""), times=1)
    with pytest.raises(UnreachableError, match="the connection broke"):
        cluster.create({"metadata": {"name": "a"}}, "ConfigMap", "llm")
    assert api.count("POST", "configmaps") == 1


def test_bodies_are_written_as_go_writes_them(api: FakeAPI, cluster: Cluster) -> None:
    body = {"metadata": {"name": "x-1"}, "data": {"text": 'a <b> & "c" é \u2028', "numbers": [1, 0.92]}}
    cluster.create(body, "ControllerRevision", "llm")
    assert api.requests[-1].json() == body
    text = '"a \\u003cb\\u003e \\u0026 \\"c\\" é \\u2028"'
    assert (
        api.requests[-1].body.decode() == f'{{"data":{{"numbers":[1,0.92],"text":{text}}},"metadata":{{"name":"x-1"}}}}'
    )


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster = connect(str(kubeconfig(tmp_path / "config", f"http://127.0.0.1:{port}", token="t")))
    with pytest.raises(UnreachableError, match="connection refused"):
        cluster.server_version()


def test_a_server_that_never_answers_is_given_up(api: FakeAPI, tmp_path: Path) -> None:
    api.hang("GET", "/version")
    cluster = connect(str(kubeconfig(tmp_path / "config", api.url, token="t")), request_timeout=0.2)
    with pytest.raises(UnreachableError, match="no answer within the time limit"):
        cluster.server_version()


def test_https_to_a_server_without_tls(api: FakeAPI, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path / "config", api.url.replace("http:", "https:"), token="t")
    with pytest.raises(UnreachableError, match="does not use TLS"):
        connect(str(config)).server_version()


def test_an_answer_that_is_no_json(api: FakeAPI, cluster: Cluster) -> None:
    api.answer("GET", "/version", (200, b"<html>login</html>"))
    with pytest.raises(ClusterError, match="did not answer with JSON"):
        cluster.server_version()


def test_deleting_is_bound_to_the_uid(api: FakeAPI, cluster: Cluster) -> None:
    stored = api.put(kind="ConfigMap", metadata={"name": "a"})
    cluster.delete("ConfigMap", "a", "llm", uid=stored["metadata"]["uid"])
    body = api.requests[-1].json()
    assert body["preconditions"] == {"uid": stored["metadata"]["uid"]}
    assert body["propagationPolicy"] == "Foreground"
