"""`deploy` when others act on the same service, when it is interrupted, and with fewer rights. On simulated nodes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from e2e.harness import LLAMA, Bench
from e2e.simulate.shapes import SIMULATED

AT_ONCE = 60.0
"""Seconds within which `deploy` ends because of what happened, far below its own time-out. Other tests keep both cores
busy meanwhile."""

UNSATISFIABLE = ("--tp", "4", "--cpu", "150")
"""More CPUs than are free on a node that `occupied` holds, and fewer than it has: `deploy` waits for as long as it may,
and holds no GPU."""


@pytest.fixture
def occupied(simulated: Bench) -> Bench:
    """The simulated nodes with 60 CPUs less."""
    nodes = json.loads(simulated.kubectl("get", "nodes", "-l", f"{SIMULATED}=true", "-o", "json"))["items"]
    simulated.wait("the default service account", lambda: simulated.items("serviceaccounts"), timeout=60)
    simulated.apply(*(_holder(node["metadata"]["name"], "60") for node in nodes))
    return simulated


def _holder(node: str, cpus: str) -> dict[str, Any]:
    container = {
        "name": "holder", "image": "example.com/holder",
        "resources": {"requests": {"cpu": cpus}, "limits": {"cpu": cpus}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }  # fmt: skip
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {"nodeName": node, "securityContext": security, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"holder-{node}"}, "spec": spec}


def llama(bench: Bench, name: str, *more: str) -> list[str]:
    return [*LLAMA, "--name", name, "-n", bench.namespace, *more]


def waiting(bench: Bench, *args: str) -> subprocess.Popen[str]:
    """`deploy` that has applied its service and waits for it."""
    process = bench.start(*args)
    bench.wait("pods of the service", lambda: bench.items("pods", "ray.io/is-ray-node=yes"), timeout=120)
    time.sleep(3)
    assert process.poll() is None, process.communicate()
    return process


def ended(process: subprocess.Popen[str]) -> tuple[int, str, float]:
    """Exit code, standard error, and the seconds until then."""
    begin = time.monotonic()
    _, err = process.communicate(timeout=120)
    assert "Traceback" not in err, err
    return process.returncode, err, time.monotonic() - begin


def test_deploy_ends_when_its_service_is_deleted(occupied: Bench) -> None:
    process = waiting(occupied, *llama(occupied, "gone", *UNSATISFIABLE))
    occupied.kubectl("delete", "rayservice", "gone", "-n", occupied.namespace, "--wait=false")
    code, err, seconds = ended(process)
    print(f"deploy ended {seconds:.1f} s after its service was deleted")
    assert code == 1, err
    assert "gone was deleted" in err
    assert seconds < AT_ONCE, err


def test_of_two_deploys_with_different_settings_one_ends_with_a_conflict(occupied: Bench) -> None:
    first = waiting(occupied, *llama(occupied, "twice", *UNSATISFIABLE))
    second = occupied.run(*llama(occupied, "twice", "--tp", "4"))
    code, err, seconds = ended(first)
    print(f"the first deploy ended {seconds:.1f} s after the second")
    assert "ready" in second.err
    assert code == 4, err
    assert "rayservice/twice" in err
    assert seconds < AT_ONCE, err


def test_an_interrupted_deploy_says_that_the_change_goes_on(occupied: Bench) -> None:
    process = waiting(occupied, *llama(occupied, "left", *UNSATISFIABLE))
    process.send_signal(signal.SIGINT)
    code, err, seconds = ended(process)
    assert code == 130, err
    said = " ".join(line for line in err.splitlines() if not re.match(r"\d\d:\d\d:\d\d ", line))
    assert re.search(r"rayservice/left was (created|applied)\b.* goes on\b", said), err
    assert f"rayllm-ctl watch left -n {occupied.namespace}" in err
    assert seconds < AT_ONCE, err
    assert occupied.items("rayservices")


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
    simulated.kubectl("create", "serviceaccount", "deployer", "-n", simulated.namespace)
    token = simulated.kubectl("create", "token", "deployer", "-n", simulated.namespace).strip()
    deployer = simulated.with_token(token, tmp_path)
    args = llama(simulated, "allowed", "--tp", "4")

    refused = deployer.run(*args, code=5)
    asked = {(verb, resource + (sub or "")) for verb, resource, sub in RIGHT.findall(refused.err.partition("hint")[0])}
    assert asked, str(refused)
    grant(simulated, asked)
    ready = deployer.run(*args)
    assert "forbidden" not in ready.err.lower(), str(ready)
    simulated.run("delete", "allowed", "-n", simulated.namespace)

    for right in sorted(asked):
        grant(simulated, asked - {right})
        refused = deployer.run(*args, code=5)
        assert " ".join(right) in refused.err, str(refused)
        assert not simulated.items("rayservices"), f"applied without the right to {' '.join(right)}"


def grant(bench: Bench, rights: set[tuple[str, str]]) -> None:
    """Make `rights`, as (verb, resource), all that the service account `deployer` has in the namespace."""
    rules = [
        {"apiGroups": [resource.partition("/")[0].partition(".")[2]], "verbs": [verb],
         "resources": ["/".join(part.partition(".")[0] for part in resource.split("/"))]}
        for verb, resource in sorted(rights)
    ]  # fmt: skip
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "deployer"}}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": bench.namespace}],
    }  # fmt: skip
    bench.apply({**role, "rules": rules}, binding)
