"""`deploy` when others act on the same service, when it is interrupted, and with fewer rights. On simulated nodes."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from e2e.accounts import Right, account
from e2e.harness import LLAMA, Bench
from e2e.running import Running
from e2e.simulated import hold_on_each_node

pytestmark = pytest.mark.xdist_group("simulated")

UNSATISFIABLE = ("--tp", "4", "--cpu", "150")
"""More CPUs than are free on a node that `occupied` holds, and fewer than it has: `deploy` waits for as long as it may,
and holds no GPU."""


@pytest.fixture
def occupied(simulated: Bench) -> Bench:
    """The simulated nodes with 60 CPUs less."""
    hold_on_each_node(simulated, {"cpu": "60"})
    return simulated


def llama(bench: Bench, name: str, *more: str) -> list[str]:
    return [*LLAMA, "--name", name, "-n", bench.namespace, *more]


def waiting(bench: Bench, name: str) -> Running:
    """`deploy` that has applied its service and waits for it."""
    deploy = Running(bench, *llama(bench, name, *UNSATISFIABLE))
    deploy.says(f"rayservice/{name} created")
    bench.wait("pods of the service", lambda: bench.items("pods", "ray.io/is-ray-node=yes"), timeout=120)
    deploy.says(r"\bstate\b")
    return deploy


# That `deploy` ends in time is said by its exit code: its own time-out has another one.


def test_deploy_ends_when_its_service_is_deleted(occupied: Bench) -> None:
    deploy = waiting(occupied, "gone")
    occupied.kubectl("delete", "rayservice", "gone", "-n", occupied.namespace, "--wait=false")
    code, err = deploy.ended()
    assert code == 1, err
    assert "gone was deleted" in err


def test_of_two_deploys_with_different_settings_one_ends_with_a_conflict(occupied: Bench) -> None:
    first = waiting(occupied, "twice")
    second = occupied.run(*llama(occupied, "twice", "--tp", "4"))
    code, err = first.ended()
    assert "ready" in second.err
    assert code == 4, err
    assert "rayservice/twice" in err


def test_an_interrupted_deploy_says_that_the_change_goes_on(occupied: Bench) -> None:
    deploy = waiting(occupied, "left")
    deploy.interrupt()
    code, err = deploy.ended()
    assert code == 130, err
    said = " ".join(line for line in err.splitlines() if not re.match(r"\d\d:\d\d:\d\d ", line))
    assert re.search(r"rayservice/left was (created|applied)\b.* keeps starting\b", said), err
    assert f"rayllm-ctl watch left -n {occupied.namespace}" in err
    assert occupied.items("rayservices")


@pytest.mark.slow
def test_an_upgrade_says_each_thing_once(simulated: Bench) -> None:
    simulated.run(*llama(simulated, "upgraded", "--tp", "4"))
    (before,) = [item["metadata"]["name"] for item in simulated.items("rayclusters")]
    upgrade = simulated.run(*llama(simulated, "upgraded", "--tp", "4", "--env", "COLOR=blue"))
    clusters = {item["metadata"]["name"] for item in simulated.items("rayclusters")}
    assert clusters - {before}, "a changed environment starts a second RayCluster"
    lines = Counter(re.sub(r"^\s*[0-9:.ms]+\s+", "", line) for line in upgrade.err.splitlines() if line.strip())
    assert [line for line, times in lines.items() if times > 1] == [], str(upgrade)
    assert " gone" not in upgrade.err, str(upgrade)
    assert not re.search(r"\bof 0 replicas", upgrade.err), str(upgrade)


def test_the_roles_that_rbac_prints_are_enough(simulated: Bench, tmp_path: Path) -> None:
    space = simulated.namespace

    def granted(role: str) -> Bench:
        simulated.kubectl("create", "serviceaccount", role, "-n", space)
        name = f"{role}-{space}"
        made = simulated.run("rbac", "--for", role, "-n", space, "--name", name, "--service-account", f"{space}:{role}")
        simulated.kubectl("apply", "-f", "-", input_text=made.out)
        (tmp_path / role).mkdir()
        return simulated.with_token(simulated.kubectl("create", "token", role, "-n", space).strip(), tmp_path / role)

    try:
        ready = granted("ci").run(*llama(simulated, "granted", "--tp", "4"))
        assert "not permitted" not in ready.err, str(ready)
        viewer = granted("viewer")
        seen = viewer.run("status", "granted", "-n", space)
        # Whoever may read the token can run code in the pods, so the role does not grant it.
        assert set(re.findall(r"not permitted to ([^\n;,]+)", seen.out + seen.err)) == {"get secrets"}, str(seen)
        refused = viewer.run("delete", "granted", "-n", space, code=5)
        assert "delete rayservices.ray.io" in refused.err, str(refused)
    finally:
        for name in (f"ci-{space}", f"viewer-{space}"):
            simulated.kubectl("delete", "clusterrolebinding", f"{name}-{space}", "--ignore-not-found")
            simulated.kubectl("delete", "clusterrole", name, "--ignore-not-found")


RIGHT = re.compile(r"\b(get|list|watch|create|patch|update|delete) ([a-z]+(?:\.[a-z0-9.]+)?)(/[a-z]+)?")


def test_the_rights_that_the_preflight_asks_for_are_enough_and_all_needed(simulated: Bench, tmp_path: Path) -> None:
    args = llama(simulated, "allowed", "--tp", "4")
    with account(simulated, tmp_path) as user:
        refused = user.run(*args, code=5)
        asked = {
            Right("Role", resource.partition(".")[2], resource.partition(".")[0] + subresource, verb)
            for verb, resource, subresource in RIGHT.findall(refused.err.rpartition("✗")[2].partition("hint")[0])
        }
        assert asked, str(refused)
        user.grant(asked)
        ready = user.run(*args)
        assert "forbidden" not in ready.err.lower(), str(ready)
        simulated.run("delete", "allowed", "-n", simulated.namespace)

        for right in sorted(asked):
            user.grant(asked - {right})
            refused = user.run(*args, code=5)
            assert str(right) in refused.err, str(refused)
            assert not simulated.items("rayservices"), f"applied without the right to {right}"
