"""spec.rollout: how a change reaches running pods, what that costs, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.controller.types import Key
from rayllm_ctl.model.kube.labels import RESTARTED
from tests.controller.conftest import Controlled

RESTARTS: dict[str, Any] = {"engine": {"args": {"seed": 7}}}
NEEDS_A_CLUSTER: dict[str, Any] = {"engine": {"env": {"NCCL_DEBUG": "WARN"}}}


@pytest.fixture
def ready(controlled: Controlled) -> Controlled:
    """A service that is Ready."""
    controlled.put()
    controlled.step()
    controlled.run()
    controlled.step()
    assert controlled.condition("Ready")[0] == "True"
    controlled.writes()
    return controlled


def changes(controlled: Controlled) -> list[str]:
    """The requests since the last call that change more than a status."""
    return [one for one in controlled.writes() if "/status" not in one]


def restarted(controlled: Controlled) -> str | None:
    """The annotation that has KubeRay start a second RayCluster."""
    template = controlled.api.stored("RayService", "tiny")["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]
    found: dict[str, str] = template["metadata"].get("annotations") or {}
    return found.get(RESTARTED)


def test_in_place_takes_no_extra_replica(ready: Controlled) -> None:
    ready.put(rollout="in-place", **RESTARTS)
    ready.step()
    assert changes(ready) == []
    assert ready.condition("Upgrading")[:2] == ("False", "NeedsConsent")


@pytest.mark.parametrize("way", ["in-place", "surge"])
def test_what_needs_a_second_raycluster_is_not_applied_in_place(ready: Controlled, way: str) -> None:
    ready.put(rollout=way, **NEEDS_A_CLUSTER)
    ready.step()
    assert changes(ready) == []
    status, reason, message = ready.condition("Stalled")
    assert (status, reason) == ("True", "RolloutImpossible")
    assert f"as spec.rollout: {way} requires" in message
    assert "→ spec.rollout: new-cluster, or auto" in message
    assert ready.condition("Ready")[0] == "True"


def test_another_rollout_makes_it_possible(ready: Controlled) -> None:
    ready.put(rollout="in-place", **NEEDS_A_CLUSTER)
    ready.step()
    ready.put(rollout="new-cluster", **NEEDS_A_CLUSTER)
    ready.step()
    assert ready.condition("Applied") == ("True", "Applied", "revision 2")


def test_surge_waits_for_the_capacity_of_its_extra_replica(ready: Controlled) -> None:
    ready.api.remove("Node", "n1", "")
    ready.put(rollout="surge", **RESTARTS)
    ready.step()
    assert ready.condition("Upgrading")[:2] == ("True", "Surge")
    assert ready.api.stored("RayService", "tiny")["metadata"]["annotations"]["rayllm.io/raised-for"] == "2"


def test_surge_that_does_not_help_is_said(ready: Controlled) -> None:
    """No replica of another model answers yet."""
    ready.put(rollout="surge", model={"id": "Qwen/Qwen3-1.7B"})
    ready.step()
    assert ready.condition("Stalled")[:2] == ("True", "RolloutImpossible")
    assert "would not keep the service available" in ready.condition("Stalled")[2]
    assert changes(ready) == []


def test_a_second_raycluster_serves_before_the_first_goes(ready: Controlled) -> None:
    ready.api.remove("Node", "n1", "")  # it waits for capacity, and the first one answers meanwhile
    ready.put(rollout="new-cluster", **RESTARTS)
    ready.step()
    assert ready.condition("Applied") == ("True", "Applied", "revision 2")
    assert restarted(ready) == "tiny-2"
    assert '"seed": 7' in ready.api.stored("RayService", "tiny")["spec"]["serveConfigV2"]
    ready.run()
    ready.step()
    changes(ready)
    ready.restart()
    ready.step()
    ready.step()
    assert changes(ready) == []
    assert restarted(ready) == "tiny-2"


def test_an_interrupted_start_of_a_second_raycluster_starts_no_third(
    ready: Controlled, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready.put(rollout="new-cluster", **RESTARTS)
    with monkeypatch.context() as patch:
        patch.setattr(type(ready.reconciler), "_propagate", interrupted)
        patch.setattr("rayllm_ctl.controller.service.annotate_revision", interrupted)
        ready.look()
        with pytest.raises(KeyboardInterrupt):
            ready.reconciler.reconcile(Key("LLMService", "llm", "tiny"))
    assert restarted(ready) == "tiny-2"
    ready.restart()
    ready.step()
    assert restarted(ready) == "tiny-2"
    assert ready.api.names("ControllerRevision") == ["tiny-1", "tiny-2"]


def interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_another_rollout_alone_changes_nothing(ready: Controlled) -> None:
    ready.put(rollout="new-cluster")
    ready.step()
    assert changes(ready) == []
    assert ready.status()["observedGeneration"] == ready.api.stored("LLMService", "tiny")["metadata"]["generation"]


def test_fewer_replicas_for_a_while_are_for_the_command_line(ready: Controlled) -> None:
    """Admission rejects it as well."""
    ready.put(rollout="shrink", **NEEDS_A_CLUSTER)
    ready.step()
    assert ready.condition("Stalled")[:2] == ("True", "InvalidSpec")
    assert "spec.rollout: shrink: the controller takes no replicas away" in ready.condition("Stalled")[2]
    assert changes(ready) == []
