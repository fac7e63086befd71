"""`bundle`: what it collects has no secrets, and `status --from` says of it what `status` said."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.kinds import RAY_SERVICE
from tests.cli.conftest import Deploy, Run
from tests.cli.test_commands_raycluster import KIND
from tests.cli.test_commands_rights import grants
from tests.cli.test_commands_service import TINY
from tests.cli.test_events import WORKER, event, unschedulable
from tests.cluster.fakeapi import FakeAPI

PLAIN, HUB = "correct-horse", "hf_" + "aBcDeFgHiJ" * 3
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def contents(folder: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*")) if path.is_file())


def health(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.fixture
def deployed(deploy: Deploy) -> None:
    deploy(*TINY)


def plant(api: FakeAPI) -> None:
    """Put a secret everywhere one can stand: environment, arguments, annotations, messages, Serve's answer, logs."""
    pod = api.stored("Pod", WORKER)
    box = {
        "name": "ray-worker",
        "env": [{"name": "HF_TOKEN", "value": PLAIN}, {"name": "OTHER", "value": HUB},
                {"name": "KEPT", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}],
        "args": ["--api-key", PLAIN, f"--hf-token={PLAIN}", f"login {HUB}"],
    }  # fmt: skip
    failed = {"exitCode": 1, "reason": "Error", "message": f"401 for token={PLAIN}"}
    states = [{"name": "ray-worker", "ready": True, "restartCount": 1, "state": {"running": {}},
               "lastState": {"terminated": failed}}]  # fmt: skip
    notes = {LAST_APPLIED: json.dumps({"x": PLAIN}), "example.com/note": f"Bearer {PLAIN}"}
    api.put(**{
        **pod,
        "metadata": {**pod["metadata"], "annotations": notes},
        "spec": {**pod["spec"], "containers": [box]},
        "status": {**pod["status"], "containerStatuses": states},
    })  # fmt: skip
    service = api.stored("RayService", "tiny")
    spec = {**service["spec"], "serveConfigV2": f"runtime_env: {{env_vars: {{HF_TOKEN: {PLAIN}}}}}"}
    api.put(**{**service, "metadata": {**service["metadata"], "annotations": notes}, "spec": spec})
    event(api, "e", f"Pod/{WORKER}", "Failed", f"pull https://u:{PLAIN}@registry.example.com", type="Warning")
    replica = {"actor_id": "a" * 32, "replica_id": "a", "state": "RUNNING", "node_instance_id": WORKER, "node_id": "n",
               "log_file_path": "/serve/replica_a.log"}  # fmt: skip
    deployments = {"LLMServer:tiny": {"status": "HEALTHY", "target_num_replicas": 1, "replicas": [replica]}}
    config = {"runtime_env": {"env_vars": {"HF_TOKEN": PLAIN}}, "args": {"api_key": PLAIN}}
    application = {"status": "RUNNING", "deployments": deployments, "deployed_app_config": config}
    api.answer("GET", "proxy/api/serve/applications/$", (200, {"applications": {"tiny": application}}))
    log = f"Authorization: Bearer {PLAIN}\nusing {HUB}\nHF_TOKEN={PLAIN}\nserving\n".encode()
    api.answer("GET", "proxy/api/v0/logs/file$", (200, log))
    api.answer("GET", "/pods/[^/]+/log$", (200, log))


@pytest.mark.usefixtures("deployed")
def test_no_secret_is_in_it(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    plant(api)
    result = run("bundle", "tiny", "-o", str(tmp_path / "b"))
    assert result.code == 0, str(result)
    assert result.out == f"{tmp_path / 'b'}\n"
    held = contents(tmp_path / "b")
    assert PLAIN not in held
    assert HUB not in held
    assert LAST_APPLIED not in held
    assert '"secretKeyRef"' in held
    files = {str(path.relative_to(tmp_path / "b")) for path in (tmp_path / "b").rglob("*") if path.is_file()}
    assert files == {
        "objects.json", "meta.json", "serve/tiny-bcdfg.json",
        f"logs/{WORKER}/ray-worker.previous.log",  # which health reads
        f"logs/{WORKER}/ray-worker.txt", "logs/tiny-bcdfg-head/ray-head.txt",
        f"logs/{WORKER}/replica_a.log.txt", f"logs/{WORKER}/aaaaaaaa.out.txt", f"logs/{WORKER}/aaaaaaaa.err.txt",
    }  # fmt: skip


def change_nothing(_api: FakeAPI) -> None:
    pass


def waiting(api: FakeAPI) -> None:
    event(api, "s", f"Pod/{WORKER}", "FailedScheduling", unschedulable(api), 9, type="Warning")


def without_serve(api: FakeAPI) -> None:
    api.answer("GET", "proxy/api/serve/applications/$", (503, b"no"))


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize("change", [change_nothing, plant, waiting, without_serve])
@pytest.mark.parametrize("target", ["b", "b.tar.gz"])
def test_status_says_the_same_of_it(run: Run, api: FakeAPI, tmp_path: Path, change: Any, target: str) -> None:
    change(api)
    live = run("status", "tiny", "-o", "json")
    assert run("bundle", "tiny", "-o", str(tmp_path / target)).code == 0
    recorded = run("status", "tiny", "--from", str(tmp_path / target), "-o", "json")
    assert recorded.code == live.code
    expected = json.loads(live.out.replace(f"token={PLAIN}", "token=***").replace(f"u:{PLAIN}@", "***@"))
    assert json.loads(recorded.out) == expected


def test_of_vllms_own_servers(run: Run, deploy: Deploy, tmp_path: Path) -> None:
    deploy(*TINY, *KIND)
    live = run("status", "tiny", "-o", "json")
    assert run("bundle", "tiny", "-o", str(tmp_path / "b")).code == 0
    assert run("status", "tiny", "--from", str(tmp_path / "b"), "-o", "json") == live


@pytest.mark.usefixtures("deployed")
def test_where_it_goes(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("bundle", "tiny").out == "tiny-bundle.tar.gz\n"
    with tarfile.open(tmp_path / "tiny-bundle.tar.gz") as archive:
        assert "tiny-bundle/objects.json" in archive.getnames()
    again = run("bundle", "tiny")
    assert (again.code, again.out) == (2, "")
    assert "tiny-bundle.tar.gz exists" in again.err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert "full is not an empty folder" in run("bundle", "tiny", "-o", "full").err
    assert "there is no service tine in namespace llm" in run("bundle", "tine").err
    assert not (tmp_path / "tine-bundle.tar.gz").exists()


@pytest.mark.usefixtures("deployed")
def test_the_rights_of_status_are_enough(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    rights = RAY_SERVICE.rights_for("status")
    api.granted = grants(*rights.needed)
    result = run("bundle", "tiny", "-o", str(tmp_path / "b"))
    assert result.code == 0, str(result)
    assert "could not be read: not permitted to list" in result.err
    api.granted = set()
    assert run("bundle", "tiny", "-o", str(tmp_path / "c")).code == 5
