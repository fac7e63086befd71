"""`events`: what is listed and folded, what is followed, and how an event is explained."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from rayllm_ctl.health.eventlist import explained_events
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.model.workload import Right
from tests.cli.conftest import Deploy, Run
from tests.cli.test_commands_rights import grants
from tests.cli.test_commands_service import TINY
from tests.cluster.fakeapi import FakeAPI
from tests.conftest import Golden

WORKER = "tiny-bcdfg-worker"


def event(api: FakeAPI, name: str, about: str, reason: str, message: str, minute: int = 0, **parts: Any) -> None:
    """Put an event about kind/name, last seen `minute` minutes after nine."""
    kind, _, subject = about.partition("/")
    moment = f"2026-11-21T09:{minute:02d}:00Z"
    times = {"firstTimestamp": moment, "lastTimestamp": moment, "count": 1, "type": "Normal"}
    api.put(
        kind="Event", metadata={"name": name}, involvedObject={"kind": kind, "name": subject}, reason=reason,
        message=message, **(times | parts),
    )  # fmt: skip


@pytest.fixture
def deployed(deploy: Deploy, api: FakeAPI) -> None:
    deploy(*TINY)
    event(api, "a", f"Pod/{WORKER}", "Pulled", "image pulled", 5)
    event(api, "b", "RayService/tiny", "CreatedRayCluster", "Created RayCluster llm/tiny-bcdfg", 1)
    event(api, "c", f"Pod/{WORKER}", "Unhealthy", "probe failed:\n  500", 3, type="Warning", count=4)
    event(api, "d", f"Pod/{WORKER}", "Unhealthy", "probe failed: 500", 4, type="Warning", count=2)
    event(api, "e", "PersistentVolumeClaim/models", "ProvisioningSucceeded", "volume made", 2)
    event(api, "f", "PersistentVolumeClaim/other", "ProvisioningSucceeded", "volume made", 2)
    event(api, "g", "Pod/tiny-too-bcdfg-worker", "Pulled", "of another service", 2)


def unschedulable(api: FakeAPI) -> str:
    """Let the worker wait for a GPU that no node has; returns the scheduler's message."""
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes are available."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    requests = {"resources": {"requests": {"nvidia.com/gpu": "4"}}}
    pod = api.stored("Pod", WORKER)
    api.put(**{
        **pod,
        "spec": {"containers": [{"name": "ray-worker", **requests}]},
        "status": {"phase": "Pending", "conditions": [condition]},
    })  # fmt: skip
    return message


@pytest.mark.usefixtures("deployed")
def test_events_are_folded_and_oldest_first(run: Run, golden: Golden) -> None:
    result = run("events", "tiny")
    golden.check("commands/events.txt", re.sub(r"^\d\w+ ", "AGE ", str(result), flags=re.M))
    assert [line.split()[2] for line in result.out.splitlines()] == [
        "CreatedRayCluster", "ProvisioningSucceeded", "Unhealthy", "Pulled",
    ]  # fmt: skip
    assert "Unhealthy ×6" in result.out


@pytest.mark.usefixtures("deployed")
def test_json_is_one_document(run: Run) -> None:
    found = json.loads(run("events", "tiny", "-o", "json").out)["items"]
    assert found[2] == {
        "object": f"pod/{WORKER}", "reason": "Unhealthy", "message": "probe failed: 500", "warning": True, "count": 6,
        "first": "2026-11-21T09:03:00Z", "last": "2026-11-21T09:04:00Z",
    }  # fmt: skip


@pytest.mark.usefixtures("deployed")
def test_an_event_that_status_explains_says_the_cause(run: Run, api: FakeAPI) -> None:
    message = unschedulable(api)
    event(api, "s", f"Pod/{WORKER}", "FailedScheduling", message, 9, type="Warning")
    found = json.loads(run("events", "tiny", "-o", "json").out)["items"][-1]
    assert (found["message"], found["cause"]) == (message, "InsufficientGPU")
    line = run("events", "tiny").out.splitlines()[-1]
    assert f"InsufficientGPU: {found['explanation']}" in line
    assert message not in line


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None], int], None]:
    """Lets `events -f` see what `change` does, and interrupts it when it has shown `count` events after that."""
    from rayllm_ctl.cluster.api.watch import Watch

    wait, explain = Watch.wait, explained_events

    def follow(change: Callable[[], None], count: int) -> None:
        shown = steps = 0

        def explained(*arguments: Any) -> Any:
            nonlocal shown
            found = explain(*arguments)
            shown += len(found) if steps else 0
            return found

        def step(self: Watch, _seconds: float) -> bool:
            nonlocal steps
            steps += 1
            if steps == 1:
                change()
            if shown >= count:
                raise KeyboardInterrupt
            assert steps < 500
            return wait(self, 0.02)

        monkeypatch.setattr(Watch, "wait", step)
        monkeypatch.setattr("rayllm_ctl.workflows.observe.events.explained_events", explained)

    return follow


Following = Callable[[Callable[[], None], int], None]


@pytest.mark.usefixtures("deployed")
def test_follow_shows_new_and_repeated_events_and_no_others(run: Run, api: FakeAPI, following: Following) -> None:
    def change() -> None:
        event(api, "x", "Pod/tiny-too-bcdfg-worker", "Killing", "of another service", 10)
        event(api, "h", f"Pod/{WORKER}", "Killing", "stopping container", 11)
        event(api, "a", f"Pod/{WORKER}", "Pulled", "image pulled", 12, count=2)

    following(change, 2)
    result = run("events", "tiny", "-f")
    assert result.code == 130
    assert [line.split()[2:] for line in result.out.splitlines()[4:]] == [
        ["Killing", "stopping", "container"],
        ["Pulled", "×2", "image", "pulled"],
    ]


@pytest.mark.usefixtures("deployed")
def test_followed_events_are_explained_too(run: Run, api: FakeAPI, following: Following) -> None:
    following(
        lambda: event(api, "s", f"Pod/{WORKER}", "FailedScheduling", unschedulable(api), 9, type="Warning"), 1
    )  # fmt: skip
    last = json.loads(run("events", "tiny", "-f", "-o", "json").out.splitlines()[-1])
    assert (last["reason"], last["cause"]) == ("FailedScheduling", "InsufficientGPU")


def test_a_service_without_events_and_none_at_all(run: Run, deploy: Deploy, api: FakeAPI) -> None:
    deploy(*TINY)
    result = run("events", "tiny")
    assert (result.code, result.out, result.err) == (0, "", "no events of tiny\n")
    assert run("events", "tine").code == 1
    assert "did you mean tiny?" in run("events", "tine").err


def test_events_outlive_their_service(run: Run, api: FakeAPI) -> None:
    event(api, "b", "RayService/tiny", "DeletedRayCluster", "Deleted RayCluster", 1)
    assert "DeletedRayCluster" in run("events", "tiny").out


@pytest.mark.usefixtures("deployed")
def test_rights(run: Run, api: FakeAPI) -> None:
    rights = RAY_SERVICE.rights_for("events")
    api.granted = grants(*rights.needed, *rights.display)
    assert run("events", "tiny").code == 0
    assert api.denied == []
    api.granted = grants(*rights.needed)
    assert run("events", "tiny").code == 0
    api.granted = grants(Right("get", "RayService"))
    result = run("events", "tiny")
    assert result.code == 5
    assert "not permitted to list events in namespace llm" in result.err
    api.granted = grants(*rights.needed, *rights.display)
    result = run("events", "tiny", "-f")
    assert result.code == 5
    assert "not permitted to watch events in namespace llm" in result.err
