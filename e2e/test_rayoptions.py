"""Ray's token and GCS fault tolerance: one service with a Redis, through the loss of its head, to its end."""

from __future__ import annotations

import base64
import json
import secrets
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import ENDS_SOON, STAND_IN, Bench, Object
from e2e.load import Load
from e2e.outages import lost

pytestmark = [pytest.mark.xdist_group("rayoptions"), pytest.mark.slow, pytest.mark.incremental]

NAME = "safe"
PASSWORD = secrets.token_hex(16)
KEY = "auth_token"


def redis(image: str) -> list[Object]:
    """A Redis with a password, and its Service; both as Pod Security "restricted" wants them."""
    password = {"name": "REDISCLI_AUTH", "valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}}
    container = {
        "name": "redis",
        "image": image,
        "args": ["--save", "", "--requirepass", "$(REDISCLI_AUTH)"],
        "env": [password],
        "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
    }
    pod = {
        "metadata": {"name": "redis", "labels": {"app": "redis"}},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
        },
    }
    service = {"selector": {"app": "redis"}, "ports": [{"port": 6379}]}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "redis"}, "stringData": {"password": PASSWORD}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "redis"}, "spec": service},
        {"apiVersion": "v1", "kind": "Pod", **pod},
    ]


SPEC = {
    "apiVersion": "rayllm.io/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": NAME},
    "spec": {
        "model": {"id": "tiny", "path": "/models/tiny"},
        "accelerator": {"kind": "cpu"},
        "engine": {"maxModelLen": 512, "env": {**STAND_IN, **ENDS_SOON}},
        "replicas": {"min": 1, "max": 1},
        "ray": {
            "faultTolerance": {
                "redisAddress": "redis:6379",
                "passwordSecret": {"name": "redis", "key": "password"},
            },
        },
    },
}

VIEWER: list[Object] = [
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer"}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "viewer"},
        "rules": [
            {"apiGroups": ["ray.io", "discovery.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["pods", "services", "events"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get", "create"]},
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "viewer"},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer"}],
    },
]
"""One who may see everything of a service but Secrets."""


def cluster(bench: Bench) -> str:
    """The name of the service's only RayCluster."""
    [found] = bench.items("rayclusters")
    return str(found["metadata"]["name"])


def pod(bench: Bench, kind: str) -> Object:
    [live] = [
        item for item in bench.items("pods", f"ray.io/node-type={kind}") if "deletionTimestamp" not in item["metadata"]
    ]
    return live


def token(bench: Bench) -> str:
    """The token that KubeRay made for the RayCluster."""
    return base64.b64decode(bench.get("secret", cluster(bench))["data"][KEY]).decode()


def keys(bench: Bench) -> list[str]:
    """The keys in the Redis."""
    return bench.kubectl("exec", "-n", bench.namespace, "redis", "--", "redis-cli", "keys", "*").split()


def status(bench: Bench) -> tuple[int, Any]:
    """Exit code and health."""
    result = bench.run("status", NAME, "-n", bench.namespace, "-o", "json", code=None)
    return result.code, result.json()


def test_deploy_becomes_ready_and_prints_no_secret(redis_image: str, shared: Bench, tmp_path: Path) -> None:
    shared.apply(*redis(redis_image))
    file = tmp_path / "spec.yaml"
    file.write_text(yaml.safe_dump(SPEC))
    flags = ("-f", str(file), "--image", shared.target.image, "-n", shared.namespace)
    rendered = shared.run("render", *flags).out
    assert "gcsFaultToleranceOptions" in rendered
    deployed = shared.run("deploy", *flags)
    again = shared.run("deploy", *flags)
    assert "unchanged" in again.err, str(again)
    answer = shared.run("chat", NAME, "Hello", "-n", shared.namespace, "--max-tokens", "12")
    assert len(answer.out.split()) >= 3, str(answer)
    looks = [shared.run("status", NAME, "-n", shared.namespace, *more) for more in ((), ("-o", "json"))]
    assert looks[1].json()["replicasVerified"] is True, str(looks[1])
    assert keys(shared), "Ray keeps its state in the Redis"
    for said in (rendered, *map(str, (deployed, again, answer, *looks))):
        assert token(shared) not in said
        assert PASSWORD not in said
    for item in (*shared.items("rayservices"), *shared.items("rayclusters"), *shared.items("pods")):
        assert token(shared) not in json.dumps(item)
        assert PASSWORD not in json.dumps(item)


def test_the_dashboard_asks_for_the_token_and_the_command_sends_it(shared: Bench) -> None:
    with (
        shared.proxied(f"{cluster(shared)}-head-svc", 8265) as url,
        pytest.raises(urllib.error.HTTPError, match="401"),
    ):
        urllib.request.urlopen(f"{url}/api/serve/applications/", timeout=60)
    process = shared.start("dashboard", NAME, "-n", shared.namespace, "--port", "0")
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    with urllib.request.urlopen(f"{url}/api/serve/applications/", timeout=60) as answer:
        assert json.load(answer)["applications"][NAME]["status"] == "RUNNING"
    process.terminate()
    assert token(shared) not in "".join(process.communicate(timeout=60))


def test_who_may_not_read_the_secret_is_told_so(shared: Bench, tmp_path: Path) -> None:
    shared.apply(*VIEWER)
    viewer = shared.with_token(shared.kubectl("create", "token", "viewer", "-n", shared.namespace).strip(), tmp_path)
    result = viewer.run("status", NAME, "-n", shared.namespace)
    assert "replicas were not verified" in result.out.splitlines()[0], str(result)
    assert "not permitted to get secrets" in result.out, str(result)
    dashboard = viewer.run("dashboard", NAME, "-n", shared.namespace, "--port", "0", code=5)
    assert "not permitted to get secrets" in dashboard.err, str(dashboard)


def test_workers_serve_while_the_head_is_replaced(shared: Bench) -> None:
    name, worker, head = cluster(shared), pod(shared, "worker"), pod(shared, "head")
    looks: list[tuple[int, Any]] = []

    def degraded() -> bool:
        looks.append(status(shared))
        return bool(looks[-1][1]["state"] == "Degraded")

    def back() -> bool:
        looks.append(status(shared))
        return bool(looks[-1][1]["state"] == "Ready")

    with shared.proxied(f"{NAME}-serve-svc") as url, Load(url, "tiny", clients=2, max_tokens=16, pause=0.2) as load:
        shared.wait("answers", lambda: load.answered > 5, timeout=300)
        with lost(shared, head["metadata"]["name"]):
            down, answered = load.now, load.answered
            shared.wait("the head is down", degraded, timeout=300)
            shared.wait("answers without a head", lambda: load.answered >= answered + 20, timeout=300)
            degraded()
            replaced = load.now
        shared.wait("Ready again", back, timeout=300)
    assert not [one for one in load.failed if down <= one.begin <= replaced], load.failed
    assert cluster(shared) == name
    assert pod(shared, "worker")["metadata"]["uid"] == worker["metadata"]["uid"]
    assert pod(shared, "worker")["status"]["containerStatuses"][0]["restartCount"] == 0
    assert pod(shared, "head")["metadata"]["uid"] != head["metadata"]["uid"]
    for code, health in looks:
        assert health["state"] in ("Ready", "Degraded", "Progressing"), health
        assert health["message"].startswith("serving"), health
        assert (code == 1) is (health["state"] == "Degraded"), health
        if health["state"] == "Degraded":
            assert {cause["code"] for cause in health["causes"]} == {"HeadDown"}, health
            assert "the workers keep serving" in health["causes"][0]["message"]


def test_delete_waits_until_the_redis_is_clear(shared: Bench) -> None:
    assert keys(shared)
    deleted = shared.run("delete", NAME, "-n", shared.namespace)
    assert "the Job that clears the Redis" in deleted.err, str(deleted)
    assert "failed" not in deleted.err, str(deleted)
    assert keys(shared) == []
    assert not shared.items("rayclusters")
    assert [item["metadata"]["name"] for item in shared.items("pods")] == ["redis"]
