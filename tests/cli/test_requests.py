"""How many requests a command sends to the API server: each fact is read once.

More of them are seconds over a slow connection. Lower the limits where a command needs fewer.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.cli.conftest import Deploy, Run
from tests.cluster.fakeapi import FakeAPI

TINY = (
    "--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--name", "tiny",
    "--image", "example.com/vllm-cpu:1", "--max-model-len", "1024", "-n", "llm", "--offline",
)  # fmt: skip
CHANGE = ("deploy", *TINY, "--env", "COLOR=blue", "--no-wait")


def sent(run: Run, api: FakeAPI, *arguments: str) -> list[str]:
    """What a command that succeeds asks for: method and path of each request."""
    api.requests.clear()
    result = run(*arguments)
    assert result.code == 0, str(result)
    return [f"{request.method} {request.path}" for request in api.requests]


def shown(requests: list[str]) -> str:
    """Each request with how often it was sent, the most frequent first."""
    counted = Counter(requests).most_common()
    return "\n".join([f"{len(requests)} requests", *(f"{count} {request}" for request, count in counted)])


def test_first_deploy(run: Run, api: FakeAPI) -> None:
    requests = sent(run, api, "deploy", *TINY)
    assert len(requests) <= 45, shown(requests)


@pytest.mark.parametrize(
    ("before", "command", "most"),
    [
        ((), CHANGE, 32),
        ((CHANGE,), ("scale", "tiny", "--max", "4", "-n", "llm", "--no-wait"), 11),
        ((CHANGE,), ("rollback", "tiny", "-n", "llm", "--no-wait"), 31),
        ((), ("status", "tiny", "-n", "llm"), 15),
    ],
    ids=["deploy", "scale", "rollback", "status"],
)
def test_requests_about_a_service_that_runs(
    run: Run, api: FakeAPI, deploy: Deploy, before: tuple[tuple[str, ...], ...], command: tuple[str, ...], most: int
) -> None:
    deploy(*TINY)
    for earlier in before:
        sent(run, api, *earlier)
    requests = sent(run, api, *command)
    assert len(requests) <= most, shown(requests)


SCALE = ("scale", "tiny", "--max", "4", "-n", "llm", "--no-wait")


def inventory_of(requests: list[str]) -> int:
    """Of how many kinds the objects of the service were listed."""
    return sum(request.startswith("GET ") and request.endswith(("/ingresses", "/roles")) for request in requests)


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
    reviews = [request for request in requests if request.endswith("accessreviews")]
    assert len(reviews) >= 15, shown(requests)
