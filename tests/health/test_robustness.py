"""Odd objects: nothing raises, and what cannot be seen is never called healthy."""

from __future__ import annotations

import copy
import dataclasses
import random
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.health import diagnose, diagnose_cluster, diagnose_job
from rayllm_ctl.model.observed.batch_status import JobState
from rayllm_ctl.model.observed.health import Health, Snapshot, State
from rayllm_ctl.model.text.json_form import to_json
from tests.health.cases import NAME, NAMESPACE, SAMPLES, case_folders, expected, job_folders, load_case

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -3.5,
    "",
    "x",
    [],
    {},
    [None],
    ["a"],
    {"a": 1},
    10**30,
    "2026-13-99T00:00:00Z",
    float("nan"),
)


def mutated(value: Any, share: float, chance: random.Random) -> Any:
    """`value` with about that share of its parts lost or replaced by something odd."""
    if chance.random() < share:
        return copy.deepcopy(chance.choice(ODD))
    if isinstance(value, dict):
        return {key: mutated(part, share, chance) for key, part in value.items() if chance.random() > share / 2}
    if isinstance(value, list):
        return [mutated(part, share, chance) for part in value]
    return value


@given(
    folder=st.sampled_from(case_folders()),
    seed=st.integers(0, 2**32),
    share=st.sampled_from((0.002, 0.01, 0.05, 0.3)),
)
def test_odd_objects_never_raise(folder: Path, seed: int, share: float) -> None:
    chance = random.Random(seed)
    whole = load_case(folder)
    objects = tuple(mutated(item, share, chance) for item in whole.objects)
    serve = {name: mutated(answer, share, chance) for name, answer in whole.serve.items()}
    health = diagnose(dataclasses.replace(whole, objects=objects, serve=serve), NAME, NAMESPACE)
    assert to_json(health)["state"] in [state.value for state in State]


def without(snapshot: Snapshot, *kinds: str) -> Snapshot:
    return dataclasses.replace(snapshot, objects=tuple(item for item in snapshot.objects if item["kind"] not in kinds))


@pytest.fixture
def serving() -> Snapshot:
    return load_case(SAMPLES / "healthy")


def test_a_service_is_ready_only_with_an_application_that_is_known_to_run(serving: Snapshot) -> None:
    blind = dataclasses.replace(serving, serve={})
    for item in blind.objects:
        if item["kind"] == "RayService":
            item["status"]["activeServiceStatus"].pop("applicationStatuses")
    assert diagnose(serving, NAME, NAMESPACE).state is State.READY
    assert diagnose(blind, NAME, NAMESPACE).state is not State.READY


def test_a_service_is_ready_only_with_addresses_behind_it(serving: Snapshot) -> None:
    for item in serving.objects:
        if item["kind"] == "EndpointSlice":
            item["endpoints"][0]["conditions"]["ready"] = False
    assert diagnose(serving, NAME, NAMESPACE).state is not State.READY


@pytest.mark.parametrize(("of", "state"), [("", State.READY), ("not-", State.PROGRESSING)])
def test_the_first_cluster_serves_as_soon_as_requests_reach_it(serving: Snapshot, of: str, state: State) -> None:
    """KubeRay calls it active a moment later. Addresses may be left of a deleted service of the same name."""
    head = next(item["metadata"]["name"] for item in serving.objects if "-head" in item["metadata"]["name"])
    for item in serving.objects:
        if item["kind"] == "RayService":
            status = item["status"]
            status["pendingServiceStatus"], status["activeServiceStatus"] = status["activeServiceStatus"], None
            status["conditions"] = [{"type": "Ready", "status": "False", "reason": "Initializing"}]
        if item["kind"] == "EndpointSlice":
            for endpoint in item["endpoints"]:
                endpoint["targetRef"] = {"kind": "Pod", "name": of + head}
    health = diagnose(serving, NAME, NAMESPACE)
    assert (health.state, [cause.code for cause in health.causes if cause.code != "StillStarting"]) == (state, [])


def test_the_operators_copy_stands_in_where_serve_was_not_asked(serving: Snapshot) -> None:
    health = diagnose(dataclasses.replace(serving, serve={}), NAME, NAMESPACE)
    assert (health.state, health.message) == (State.READY, "serving")
    assert not health.replicas_verified
    assert health.notes == ()


@pytest.mark.parametrize("kind", ["Node", "Deployment", "EndpointSlice"])
def test_what_may_not_be_read_is_no_trouble(serving: Snapshot, kind: str) -> None:
    assert diagnose(without(serving, kind), NAME, NAMESPACE).state is State.READY


def test_old_trouble_of_a_service_that_serves_is_none(serving: Snapshot) -> None:
    """Whenever one looks at it, a warning that a start left behind makes no healthy service look ill."""
    for seconds in (0, 60, 300, 3600, 86400):
        later = dataclasses.replace(serving, now=serving.now + timedelta(seconds=seconds))
        assert diagnose(later, NAME, NAMESPACE).state is State.READY


UNLIMITED = {
    "scaling-down-until-a-worker-is-idle",  # as long as a request takes, which the message says
    "servers-a-change-waits",  # it does not say when the change was made
}
"""Samples in which something may continue for a day."""


def test_no_start_goes_on_for_a_day() -> None:
    """What is in progress for a day, without the events of that time, is neither in progress nor well."""
    lasting = []
    for folder in case_folders():
        want = expected(folder)
        if want["state"] == State.PROGRESSING.value and folder.name not in UNLIMITED:
            reader = diagnose_cluster if want.get("kind") == "RayCluster" else diagnose
            case = load_case(folder)
            health = reader(dataclasses.replace(case, now=case.now + timedelta(days=1)), NAME, NAMESPACE)
            if health.state is State.PROGRESSING:
                lasting.append((folder.name, health.message))
    assert lasting == []


def test_a_change_that_a_running_operator_does_not_look_at_is_not_progress_for_ever() -> None:
    case = load_case(SAMPLES / "healthy")
    for item in case.objects:
        if item["kind"] == "RayService":
            item["metadata"]["generation"] = 3
            item["metadata"]["managedFields"] = [{"manager": "kubectl", "time": "2026-03-01T12:09:50Z"}]
    now = diagnose(case, NAME, NAMESPACE)
    later = diagnose(dataclasses.replace(case, now=case.now + timedelta(hours=2)), NAME, NAMESPACE)
    assert (now.state, later.state) == (State.PROGRESSING, State.DEGRADED)
    assert [cause.code for cause in later.causes] == ["OperatorNotReconciling"]


def unreadable(folder: Path, *kinds: str) -> Snapshot:
    """A sample of which objects of `kinds` may not be read. The RayService asks for what its RayCluster has."""
    whole = load_case(folder)
    specs = [item["spec"] for item in whole.objects if item["kind"] == "RayCluster" and "spec" in item]
    objects = [copy.deepcopy(item) for item in whole.objects if item["kind"] not in kinds]
    for item in objects:
        if item["kind"] == "RayService" and "RayCluster" in kinds and specs:
            item["spec"]["rayClusterConfig"] = specs[-1]
    logs = {} if "Pod" in kinds else whole.logs
    notes = tuple(f"{kind} objects could not be read: not permitted" for kind in kinds)
    return dataclasses.replace(whole, objects=tuple(objects), logs=logs, notes=notes, unread=frozenset(kinds))


_GENERAL = frozenset({"ApplicationFailed", "StillStarting", "DownloadFailed"})
"""What is said where the reason cannot be read: an application's status, or the condition of a Job, shows the rest."""


def _reader(folder: Path) -> Callable[[Snapshot, str, str], Health]:
    return diagnose_cluster if expected(folder).get("kind") == "RayCluster" else diagnose


@pytest.mark.parametrize(
    ("folder", "kinds"),
    [
        pytest.param(folder, kinds, id=f"{folder.name}-{'-'.join(kinds)}")
        for folder in case_folders()
        for kinds in (("Pod",), ("RayCluster",), ("Pod", "RayCluster"))
        if kinds == ("Pod",) or _reader(folder) is diagnose
    ],
)
def test_objects_that_could_not_be_read_are_neither_missing_nor_well(folder: Path, kinds: tuple[str, ...]) -> None:
    """No cause is made of their absence, and `Ready` is not said of them."""
    reader, whole = _reader(folder), load_case(folder)
    health, seen = reader(unreadable(folder, *kinds), NAME, NAMESPACE), reader(whole, NAME, NAMESPACE)
    told = f"{health.state}: {health.message}\n" + "\n".join(map(str, health.causes))
    assert {one.code for one in health.causes} - {one.code for one in seen.causes} <= _GENERAL, told
    if seen.state in (State.READY, State.PROGRESSING):
        assert health.state in (State.READY, State.PROGRESSING, State.UNKNOWN), told
    if health.state is State.READY:
        assert "Pod" not in kinds, told
        assert "not verified" in health.message, told
    if "Pod" in kinds and any(item["kind"] == "Pod" for item in whole.objects):
        assert not health.replicas_verified or health.state in (State.NOT_FOUND, State.DELETING), told


@pytest.mark.parametrize("folder", case_folders(), ids=lambda folder: folder.name)
def test_nothing_runs_without_pods_whatever_serve_says(folder: Path) -> None:
    """Pods were read, and there are none: Serve does not notice that their node is gone for minutes."""
    health = _reader(folder)(without(load_case(folder), "Pod"), NAME, NAMESPACE)
    assert health.state is not State.READY
    assert health.replicas_running == 0


@pytest.mark.parametrize("answered", [True, False], ids=["by Serve", "by KubeRay's copy"])
def test_a_service_that_lost_all_its_pods_has_no_head(serving: Snapshot, answered: bool) -> None:
    case = without(serving, "Pod")
    health = diagnose(case if answered else dataclasses.replace(case, serve={}), NAME, NAMESPACE)
    assert (health.state, [cause.code for cause in health.causes]) == (State.DEGRADED, ["HeadDown"])


@pytest.mark.parametrize(
    ("reader", "kind"), [(diagnose, "RayService"), (diagnose_cluster, "RayCluster")], ids=["Serve", "servers"]
)
def test_a_service_whose_object_could_not_be_read_may_exist(
    serving: Snapshot, reader: Callable[[Snapshot, str, str], Health], kind: str
) -> None:
    health = reader(dataclasses.replace(without(serving, kind), unread=frozenset({kind})), NAME, NAMESPACE)
    assert (health.state, health.causes) == (State.UNKNOWN, ())
    assert health.message.startswith(f"whether there is a {kind} {NAME} is unknown")
    assert reader(without(serving, kind), NAME, NAMESPACE).state is State.NOT_FOUND


def test_a_batch_job_whose_object_could_not_be_read_may_exist() -> None:
    case = without(load_case(job_folders()[0]), "RayJob")
    unknown = diagnose_job(dataclasses.replace(case, unread=frozenset({"RayJob"})), NAME, NAMESPACE)
    assert unknown.state is JobState.UNKNOWN
    assert "could not be read" in unknown.message
    assert diagnose_job(case, NAME, NAMESPACE).state in (JobState.NOT_FOUND, JobState.DELETING)


_OF_A_RAYJOB = frozenset({"BatchFailed", "JobStopped", "BackoffLimitExceeded"})
"""What a RayJob says by itself."""


@pytest.mark.parametrize("folder", job_folders(), ids=lambda folder: folder.name)
def test_pods_of_a_job_that_could_not_be_read_are_not_missing(folder: Path) -> None:
    seen, job = (diagnose_job(case, NAME, NAMESPACE) for case in (load_case(folder), unreadable(folder, "Pod")))
    told = f"{job.state}: {job.message}\n" + "\n".join(map(str, job.causes))
    assert {one.code for one in job.causes} <= {one.code for one in seen.causes} | _OF_A_RAYJOB, told
    stopped = next((one.message for one in job.causes if one.code == "JobStopped"), "unknown")
    assert "unknown" in stopped
    assert "has not been created" not in told
    assert not re.search(r"\b0 workers", told)
