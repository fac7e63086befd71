"""Several models, and applications next to them, in one service: what a change of one does to the others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from e2e.asked import APPLICATIONS, posted, said_over_grpc
from e2e.harness import ENDS_SOON, STAND_IN, Bench, Target
from e2e.load import Load
from e2e.severalmodels import MIDDLE, QWEN, model, written

pytestmark = [pytest.mark.xdist_group("severalmodels"), pytest.mark.slow]


def test_one_model_answers_all_requests_while_another_is_changed_scaled_and_removed(
    claimed: Target, bench: Bench, tmp_path: Path
) -> None:
    pods = {"cpu": "500m", "memory": "3Gi"}
    replica = {"num_replicas": 1, "ray_actor_options": {"num_cpus": 0.2}}
    translate = {
        "name": "translate", "importPath": "text:translator", "routePrefix": "/translate", "code": "code",
        "deployments": [{"name": "Translator", "user_config": {"language": "french"}, **replica}],
    }  # fmt: skip
    say = {
        "name": "say", "importPath": "chat:build", "routePrefix": "/say", "code": "code",
        "args": {"model": "/models/tiny"}, "deployments": [{"name": "Chat", **replica}],
    }  # fmt: skip
    common = {
        "engine": {"image": claimed.image, "env": {**STAND_IN, **ENDS_SOON}},
        "resources": {"head": {"cpu": "500m", "memory": "4Gi"}, "ingress": pods},
        "applications": [translate, say],
        "upgrade": {"deletionDelay": "5s"},
        "serve": {"grpc": {"servicerFunctions": ["chat:add_ChatServicer_to_server"]}},
    }
    (tmp_path / "code").mkdir()
    for name in ("text.py", "chat.py"):
        shutil.copy(APPLICATIONS / name, tmp_path / "code")

    def deploy(*models: dict[str, Any], accept: tuple[str, ...] = (), code: int = 0) -> str:
        args = ("deploy", "-f", written(tmp_path, *models, **common), "--offline", "-n", bench.namespace, *accept)
        return bench.run(*args, code=code).err

    def standin(name: str, model_id: str, tensor: int, **more: Any) -> dict[str, Any]:
        return model(name, model_id, tensor, path="/models/tiny", resources={"worker": pods}, **more)

    small, large = standin("small", QWEN, 1), standin("large", MIDDLE, 2)
    deploy(small, large)
    before = bench.items("rayclusters")[0]["metadata"]["uid"]
    for name in (QWEN, MIDDLE):
        answer = bench.run("chat", "chat", "--model", name, "Hello", "--max-tokens", "8", "-n", bench.namespace)
        assert answer.out.strip()
    applications_answer(bench)
    with bench.proxied("chat-serve-svc") as base, Load(base, QWEN, clients=3, max_tokens=32) as load:
        changed = standin("large", MIDDLE, 2, engine={"maxNumSeqs": 16})
        in_place = ("--upgrade", "in-place")
        assert "would be unavailable during this change" in deploy(small, changed, accept=in_place, code=1)
        deploy(small, changed, accept=(*in_place, "--accept-outage"))
        deploy(small, standin("large", MIDDLE, 2, engine={"maxNumSeqs": 16}, replicas={"min": 2, "max": 2}))
        assert [one["metadata"]["uid"] for one in bench.items("rayclusters")] == [before]
        asked = load.answered
        bench.wait("more answers", lambda: load.answered > asked, timeout=60)
        deploy(small)
        bench.wait("the first Ray cluster is gone", lambda: len(bench.items("rayclusters")) == 1, timeout=300)
    assert not load.failed, load.failed[:3]
    assert load.answered > 0
    applications_answer(bench)
    where = bench.run("endpoint", "chat", "-o", "json", "-n", bench.namespace).json()
    assert where["models"] == [QWEN]


def applications_answer(bench: Bench) -> None:
    """Both over HTTP, one of them over gRPC as well, at the address of the models."""
    with bench.proxied("chat-serve-svc") as base:
        assert posted(f"{base}/translate", "Hello")["language"] == "french"
        assert posted(f"{base}/say", {"message": "Hello"})["answer"]
    status = bench.run("status", "chat", "-n", bench.namespace, "-o", "json").json()
    assert {"translate", "say"} <= {node["name"] for node in status["tree"] if node["kind"] == "application"}
    assert said_over_grpc(bench, "chat-serve-svc", "say")
