"""What Argo CD, Flux and kstatus say of an LLMService is what `status` says of the service, for every sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.kinds import WORKLOADS
from rayllm_ctl.model.observed.batch_status import JobState
from rayllm_ctl.model.observed.health import Health, State
from tests.controller.recorded import job_item, service_item
from tests.health.cases import NAME, NAMESPACE, case_folders, expected, job_folders, load_case
from tests.render.test_gitops import argo
from tests.render.test_gitops_controller import flux, kstatus

GOES_ON = ("Progressing", "InProgress", "InProgress")
OF_SERVICES = {
    State.READY: ("Healthy", "Current", "Current"),
    State.PROGRESSING: GOES_ON,
    State.DELETING: GOES_ON,
    State.NOT_FOUND: GOES_ON,
    State.DEGRADED: ("Degraded", "InProgress", "InProgress"),
    State.FAILED: ("Degraded", "InProgress", "InProgress"),
    State.STUCK: ("Degraded", "InProgress", "InProgress"),
    State.SUSPENDED: ("Suspended", "InProgress", "InProgress"),
    State.UNKNOWN: ("Unknown", "InProgress", "InProgress"),
}
"""By the state that `status` shows: what Argo CD, Flux and kstatus say.

kstatus has no word for what is not well and may still pass without a change of the spec: its time limit ends the wait.
"""

NEEDS_A_HUMAN = ("Degraded", "Failed", "Failed")

OF_JOBS = {
    JobState.PENDING: GOES_ON,
    JobState.RUNNING: GOES_ON,
    JobState.RETRYING: GOES_ON,
    JobState.DELETING: GOES_ON,
    JobState.NOT_FOUND: GOES_ON,
    JobState.STUCK: ("Degraded", "InProgress", "InProgress"),
    JobState.SUSPENDED: ("Suspended", "InProgress", "InProgress"),
    JobState.UNKNOWN: ("Unknown", "InProgress", "InProgress"),
    JobState.SUCCEEDED: ("Healthy", "Current", "Current"),
    JobState.FAILED: NEEDS_A_HUMAN,
}


def said(item: dict[str, Any]) -> tuple[str, str, str]:
    """What Argo CD, Flux and kstatus say."""
    return argo(item), flux(item), kstatus(item)


def diagnosed(folder: Path) -> tuple[str, Health]:
    """The kind of a sample, and what `status` says of it."""
    kind = str(expected(folder).get("kind", "RayService"))
    return kind, WORKLOADS[kind].diagnose(load_case(folder), NAME, NAMESPACE)


@pytest.mark.parametrize("folder", case_folders(), ids=lambda folder: folder.name)
@pytest.mark.parametrize("was_ready", [False, True], ids=["", "was ready"])
def test_a_service(folder: Path, was_ready: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, health = diagnosed(folder)
    item = service_item(load_case(folder), kind, monkeypatch, was_ready=was_ready)
    terminal = any(one.terminal for one in health.causes)
    assert said(item) == (NEEDS_A_HUMAN if terminal else OF_SERVICES[health.state]), item["status"]["conditions"]


@pytest.mark.parametrize("folder", job_folders(), ids=lambda folder: folder.name)
def test_a_batch_job(folder: Path) -> None:
    item = job_item(load_case(folder))
    state = JobState(expected(folder)["state"])
    stalled = any(one["type"] == "Stalled" and one["status"] == "True" for one in item["status"]["conditions"])
    assert said(item) == (NEEDS_A_HUMAN if stalled else OF_JOBS[state]), item["status"]["conditions"]


def test_a_service_that_is_to_be_suspended_is_as_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """kstatus knows no word for that, and its time limit ends the wait; the expressions for Flux do."""
    folders = {folder.name: folder for folder in case_folders()}
    for name in ("rayservice-suspended", "servers-suspended"):
        kind, _ = diagnosed(folders[name])
        item = service_item(load_case(folders[name]), kind, monkeypatch, suspend=True)
        assert said(item) == ("Suspended", "Current", "InProgress"), name
