"""How many requests a command sends to the API server: each fact is read once.

More of them are seconds over a slow connection. Lower the limits where a command needs fewer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Deploy, Run
from tests.cluster.fakeapi import FakeAPI, Request

TINY = (
    "--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--name", "tiny",
    "--image", "example.com/vllm-cpu:1", "--max-model-len", "1024", "-n", "llm", "--offline",
)  # fmt: skip
CHANGE = ("deploy", *TINY, "--env", "COLOR=blue", "--no-wait")


SCALE = ("scale", "tiny", "--max-replicas", "4", "-n", "llm", "--no-wait")
SUSPEND = ("suspend", "tiny", "-n", "llm", "--no-wait")
SERVICE = "GET /apis/ray.io/v1/namespaces/llm/rayservices/tiny"
LIVE = "GET /apis/ray.io/v1/namespaces/llm/rayclusters/tiny-bcdfg"
POD = "tiny-bcdfg-worker"


def sent(run: Run, api: FakeAPI, *arguments: str) -> list[str]:
    """What a command that succeeds asks for: method, path and selectors of each request."""
    api.requests.clear()
    result = run(*arguments)
    assert result.code == 0, str(result)
    return [" ".join((request.method, request.path, *_selectors(request))) for request in api.requests]


def _selectors(request: Request) -> Iterator[str]:
    """What tells requests for the same path apart."""
    yield from (
        request.query[key] for key in ("labelSelector", "fieldSelector", "dryRun", "watch") if key in request.query
    )
    if request.path.endswith("reviews"):
        yield request.body.decode()


def shown(requests: list[str]) -> str:
    """Each request with how often it was sent, the most frequent first."""
    counted = Counter(requests).most_common()
    return "\n".join([f"{len(requests)} requests", *(f"{count} {request}" for request, count in counted)])


def test_first_deploy(run: Run, api: FakeAPI) -> None:
    requests = sent(run, api, "deploy", *TINY)
    assert len(requests) <= 46, shown(requests)


@pytest.mark.parametrize(
    ("before", "command", "most", "again"),
    [
        # What is applied is read again just before, as another client may have changed it.
        ((), CHANGE, 32, {SERVICE: 2}),
        # And the live RayCluster again before its bounds are patched.
        ((), ("deploy", *TINY, "--max-replicas", "3", "--no-wait"), 31, {SERVICE: 2, LIVE: 2}),
        ((CHANGE,), SCALE, 11, {SERVICE: 2}),
        ((CHANGE,), ("rollback", "tiny", "-n", "llm", "--no-wait"), 31, {SERVICE: 2}),
        ((), ("restart", "tiny", "-n", "llm", "--no-wait"), 11, {SERVICE: 2}),
        ((), SUSPEND, 5, {}),
        ((SUSPEND,), ("resume", "tiny", "-n", "llm", "--no-wait"), 5, {}),
        ((), ("delete", "tiny", "-n", "llm", "--no-wait"), 23, {}),
        ((), ("history", "tiny", "-n", "llm"), 1, {}),
        ((), ("status", "tiny", "-n", "llm"), 14, {}),
        ((), ("wait", "tiny", "-n", "llm", "--for", "ready"), 21, {}),
        ((), ("events", "tiny", "-n", "llm"), 14, {}),
        ((), ("logs", "tiny", "-n", "llm", "--head"), 3, {}),
        ((), ("logs", "tiny", "-n", "llm", "--replica", POD), 5, {}),
        ((), ("top", "tiny", "-n", "llm"), 5, {}),
        ((), ("endpoint", "tiny", "-n", "llm"), 3, {}),
        ((), ("chat", "tiny", "-n", "llm", "Why?"), 2, {}),
        ((), ("serve-config", "tiny", "-n", "llm"), 1, {}),
        ((), ("version", "tiny", "-n", "llm"), 3, {}),
        ((), ("check", "-n", "llm"), 22, {}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) and value and isinstance(value[0], str) else "",
)
def test_requests_about_a_service_that_runs(
    run: Run,
    api: FakeAPI,
    deploy: Deploy,
    before: tuple[tuple[str, ...], ...],
    command: tuple[str, ...],
    most: int,
    again: dict[str, int],
) -> None:
    deploy(*TINY)
    for earlier in before:
        sent(run, api, *earlier)
    requests = sent(run, api, *command)
    assert len(requests) <= most, shown(requests)
    assert {request: count for request, count in Counter(requests).items() if count > 1} == again


def test_a_bundle_asks_for_nothing_twice(run: Run, api: FakeAPI, deploy: Deploy, tmp_path: Path) -> None:
    deploy(*TINY)
    requests = sent(run, api, "bundle", "tiny", "-n", "llm", "-o", str(tmp_path / "bundle"))
    assert len(set(requests)) == len(requests), shown(requests)


@pytest.mark.parametrize(("command", "most"), [("restart", 31), ("resume", 25)])
def test_requests_of_a_command_that_waits(run: Run, api: FakeAPI, deploy: Deploy, command: str, most: int) -> None:
    """The fake KubeRay is Ready at the first look."""
    deploy(*TINY)
    if command == "resume":
        sent(run, api, *SUSPEND)
    requests = sent(run, api, command, "tiny", "-n", "llm")
    assert len(requests) <= most, shown(requests)


def inventory_of(requests: list[str]) -> int:
    """Of how many kinds the objects of the service were listed."""
    paths = [request.split()[1] for request in requests if request.startswith("GET ")]
    return sum(path.endswith(("/ingresses", "/roles")) for path in paths)


def test_scale_lists_the_kinds_of_the_history(run: Run, api: FakeAPI, deploy: Deploy) -> None:
    deploy(*TINY)
    assert inventory_of(sent(run, api, *SCALE)) == 0


def test_scale_lists_all_kinds_where_something_was_applied_without_a_revision(
    run: Run, api: FakeAPI, deploy: Deploy
) -> None:
    deploy(*TINY)
    revision = "/controllerrevisions$"
    api.answer("POST", revision, (500, {"kind": "Status", "message": "etcdserver: no space"}), times=1)
    assert "POST /apis/apps/v1/namespaces/llm/controllerrevisions" in sent(run, api, *CHANGE)
    assert inventory_of(sent(run, api, *SCALE)) == 2


def test_each_right_is_asked_for_where_a_webhook_authorizes(run: Run, api: FakeAPI, deploy: Deploy) -> None:
    deploy(*TINY)
    api.lists_rules = False
    requests = sent(run, api, *CHANGE)
    reviews = [request for request in requests if "accessreviews " in request]
    assert len(reviews) >= 15, shown(requests)
