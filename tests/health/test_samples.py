"""Every diagnosis rule against a sample that shows what it is for, and samples that look alike and are none of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rayllm_ctl.health import diagnose, diagnose_cluster
from tests.health.cases import NAME, NAMESPACE, SAMPLES, case_folders, expected, load_case


@pytest.mark.parametrize("folder", case_folders(), ids=lambda folder: folder.name)
def test_sample(folder: Path) -> None:
    want = expected(folder)
    reader = diagnose_cluster if want.get("kind") == "RayCluster" else diagnose
    health = reader(load_case(folder), NAME, NAMESPACE)
    told = f"{health.state}: {health.message}\n" + "\n".join(map(str, health.causes))
    assert health.state.value == want["state"], told
    assert [cause.code for cause in health.causes] == want.get("codes", []), told
    for cause in health.causes:
        assert cause.evidence, f"{cause.code} quotes no evidence"
        assert cause.hint, f"{cause.code} says nothing to type"
    first = health.causes[0] if health.causes else None
    if "terminal" in want:
        assert first is not None
        assert first.terminal is want["terminal"], told
    if "object" in want:
        assert first is not None
        assert first.object == want["object"], told
    if "since" in want:
        assert health.since is not None, told
        assert f"{health.since:%H:%M:%S}" == want["since"], told
    assert list(health.notes) == want.get("notes", list(health.notes)), told
    for words in want.get("says", []):
        assert words in told, f"{words!r} is not in\n{told}"
    for words in want.get("hints", []):
        assert first is not None
        assert any(words in str(hint) for hint in first.hint), f"{words!r} is not in {first.hint}"


def test_what_could_not_be_read_is_noted() -> None:
    snapshot = dataclasses.replace(load_case(SAMPLES / "healthy"), notes=("nodes could not be read: not permitted",))
    assert diagnose(snapshot, NAME, NAMESPACE).notes == ("nodes could not be read: not permitted",)


def test_each_cluster_of_an_upgrade_is_in_the_tree() -> None:
    tree = diagnose(load_case(SAMPLES / "upgrade-switched"), NAME, NAMESPACE).tree
    assert [(node.name, node.state) for node in tree[:-1]] == [("demo-hjklm", "Active"), ("demo-bcdfg", "Removing")]
    assert {child.cluster for child in tree[1].children} == {"demo-bcdfg"}
    assert {child.kind for child in tree[1].children} == {"application", "head", "worker"}


def test_without_serve_no_more_replicas_run_than_are_wanted() -> None:
    health = diagnose(load_case(SAMPLES / "healthy-while-the-dashboard-is-slow"), NAME, NAMESPACE)
    assert health.replicas_running <= health.replicas_wanted
    assert health.serve_unread == ("demo-bcdfg",)


def test_pods_without_a_port_of_the_service_are_no_endpoints() -> None:
    assert diagnose(load_case(SAMPLES / "only-the-head-answers"), NAME, NAMESPACE).endpoints == 1


def test_replicas_of_every_application_count_but_those_of_an_ingress_before_others() -> None:
    health = diagnose(load_case(SAMPLES / "two-applications"), NAME, NAMESPACE)
    assert (health.replicas_running, health.replicas_wanted) == (3, 3)


def test_before_serve_has_answered_no_replica_runs_and_the_configuration_says_how_many_are_wanted() -> None:
    """A worker that is Ready holds no replica yet, and a replica may take several pods."""
    case = dataclasses.replace(load_case(SAMPLES / "starting-loads-the-model"), serve={})
    for item in case.objects:
        if item["kind"] == "RayService":
            item["spec"]["serveConfigV2"] = "applications"
        if item["kind"] == "RayCluster":
            item["spec"]["workerGroupSpecs"][0] |= {"replicas": 4, "minReplicas": 4, "maxReplicas": 8}
        if item["kind"] == "Pod" and item["metadata"]["labels"].get("ray.io/node-type") == "worker":
            item["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    health = diagnose(
        case, NAME, NAMESPACE, lambda item: (1, 2) if item["spec"]["serveConfigV2"] == "applications" else None
    )
    assert (health.replicas_running, health.replicas_wanted, health.replicas_max) == (0, 1, 2)
    unread = diagnose(case, NAME, NAMESPACE)
    assert (unread.replicas_running, unread.replicas_wanted) == (0, 4)


def test_the_time_of_a_failure_is_not_that_of_the_last_configuration() -> None:
    failed = diagnose(load_case(SAMPLES / "hub-does-not-resolve"), NAME, NAMESPACE)
    assert f"{failed.since:%H:%M:%S}" == "12:09:00"
