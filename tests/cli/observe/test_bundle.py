"""`bundle`: what it collects has no secrets, and `status --from` says of it what `status` said."""

from __future__ import annotations

import base64
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.kinds import RAY_SERVICE
from tests.cli.conftest import Deploy, Run
from tests.cli.observe.test_events import WORKER, event, unschedulable
from tests.cli.test_commands_raycluster import KIND
from tests.cli.test_commands_rights import grants
from tests.cli.test_commands_service import TINY
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
    """Put a secret everywhere one can stand, each with its place in its name: environment, arguments, annotations,
    messages, configurations of Ray, Serve's answer, logs."""
    applied = json.dumps({"kind": "RayService", "spec": {"env": [{"name": "X", "value": f"{PLAIN}-applied"}]}})
    notes = {LAST_APPLIED: applied, "example.com/note": f"Bearer {PLAIN}-note", "example.com/token": f"{PLAIN}-token"}
    fields = [{"manager": "x", "fieldsV1": {f'k:{{"name":"{PLAIN}-managed"}}': {}}}]
    plant_in_pods(api, notes)
    plant_in_objects(api, notes, fields)
    plant_in_serve(api)
    log = "\n".join([
        f"Authorization: Bearer {PLAIN}-header", f"using {HUB}", f"HF_TOKEN={PLAIN}-variable", "serving",
        f"ray start --head --redis-password={PLAIN}-redis --redis-username x", f"redis://:{PLAIN}-url@redis:6379",
        f"x-ray-authorization: Bearer {PLAIN}-ray", f"{{'api_key': '{PLAIN}-dict', 'model': 'x'}}",
        f"engine args: Namespace(api_key=['{PLAIN}-list'], hf_token='{PLAIN}-quoted')",
        f"AWS_SECRET_ACCESS_KEY: {PLAIN}-aws", f'{{"env_vars": {{"DB_PASSWORD": "{PLAIN}-json"}}}}', "",
    ]).encode()  # fmt: skip
    api.answer("GET", "proxy/api/v0/logs/file$", (200, log))
    api.answer("GET", "/pods/[^/]+/log$", (200, log))


def plant_in_pods(api: FakeAPI, notes: dict[str, str]) -> None:
    pod = api.stored("Pod", WORKER)
    environment = [
        {"name": "HF_TOKEN", "value": f"{PLAIN}-env"}, {"name": "OTHER", "value": HUB},
        {"name": "RAY_AUTH_TOKEN", "value": f"{PLAIN}-ray-env"},
        {"name": "REDIS_PASSWORD", "value": f"{PLAIN}-redis-env"},
        {"name": "KEPT", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
        {"name": "RAYCLUSTER_CONFIG", "value": json.dumps({"env": {"API_KEY": f"{PLAIN}-env-json"}})},
    ]  # fmt: skip
    box = {
        "name": "ray-worker", "env": environment, "command": ["sh", "-c", f"HF_TOKEN={PLAIN}-command exec ray start"],
        "args": ["--api-key", f"{PLAIN}-arg", f"--hf-token={PLAIN}-flag", f"login {HUB}",
                 f"ulimit -n 65536; ray start --redis-password={PLAIN}-ray-start --block"],
        "lifecycle": {"postStart": {"exec": {"command": ["curl", "-H", f"Authorization: Bearer {PLAIN}-hook"]}}},
    }  # fmt: skip
    probe = {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": f"{PLAIN}-probe"}]}}
    failed = {"exitCode": 1, "reason": "Error", "message": f"401 for token={PLAIN}-status"}
    states = [{"name": "ray-worker", "ready": True, "restartCount": 1, "state": {"running": {}},
               "lastState": {"terminated": failed}}]  # fmt: skip
    api.put(**{
        **pod,
        "metadata": {**pod["metadata"], "annotations": notes},
        "spec": {**pod["spec"], "containers": [{**box, "livenessProbe": probe}], "initContainers": [box]},
        "status": {**pod["status"], "containerStatuses": states},
    })  # fmt: skip


def plant_in_objects(api: FakeAPI, notes: dict[str, str], fields: list[dict[str, Any]]) -> None:
    config = f"""
applications:
- name: tiny
  runtime_env:
    env_vars: {{HF_TOKEN: {PLAIN}-flow, "WANDB_API_KEY": "{PLAIN}-double"}}
  args:
    llm_configs:
    - engine_kwargs: {{hf_token: '{PLAIN}-single'}}
      runtime_env:
        env_vars:
          DB_PASSWORD: {PLAIN}-block
          SOME_KEY: >-
            {PLAIN}-folded
"""
    ray = {
        "gcsFaultToleranceOptions": {"redisAddress": f"redis://:{PLAIN}-address@redis:6379",
                                     "redisPassword": {"value": f"{PLAIN}-password"}},
        "headGroupSpec": {"rayStartParams": {"redis-password": f"{PLAIN}-params"}},
    }  # fmt: skip
    service = api.stored("RayService", "tiny")
    status = {**service["status"], "conditions": [
        *service["status"]["conditions"], {"type": "X", "message": f"password: {PLAIN}-condition"},
    ]}  # fmt: skip
    api.put(**{
        **service, "metadata": {**service["metadata"], "annotations": notes, "managedFields": fields},
        "spec": {**service["spec"], "serveConfigV2": config, "rayClusterConfig": {
            **service["spec"]["rayClusterConfig"], **ray,
        }},
        "status": status,
    })  # fmt: skip
    cluster = api.stored("RayCluster", "tiny-bcdfg")
    api.put(**{
        **cluster, "metadata": {**cluster["metadata"], "annotations": notes},
        "spec": {**cluster["spec"], **ray, "authOptions": {"mode": "token", "secretName": "ray-token"}},
    })  # fmt: skip
    token = base64.b64encode(f"{PLAIN}-secret".encode()).decode()
    api.put(kind="Secret", metadata={"name": "ray-token", "annotations": notes}, data={"auth_token": token})
    event(api, "e", f"Pod/{WORKER}", "Failed", f"pull https://u:{PLAIN}-event@registry.example.com", type="Warning")
    event(api, "f", f"Pod/{WORKER}", "FailedPostStartHook", f"--api-key {PLAIN}-event-flag ended", type="Warning")


def plant_in_serve(api: FakeAPI) -> None:
    replica = {"actor_id": "a" * 32, "replica_id": "a", "state": "RUNNING", "node_instance_id": WORKER, "node_id": "n",
               "log_file_path": "/serve/replica_a.log"}  # fmt: skip
    options = {"runtime_env": {"env_vars": {"HF_TOKEN": f"{PLAIN}-actor"}}}
    deployments = {"LLMServer:tiny": {
        "status": "HEALTHY", "target_num_replicas": 1, "replicas": [replica],
        "message": f"ValueError: HF_TOKEN={PLAIN}-message is invalid",
        "deployment_config": {"ray_actor_options": options, "user_config": {"gateway": {"key": f"sk-{PLAIN}-user"}}},
    }}  # fmt: skip
    config = {
        "runtime_env": {"env_vars": {"HF_TOKEN": f"{PLAIN}-app"}},
        "args": {"api_key": f"{PLAIN}-args", "llm_configs": [{"engine_kwargs": {"hf_token": f"{PLAIN}-kwargs"}}]},
    }
    application = {"status": "RUNNING", "deployments": deployments, "deployed_app_config": config}
    api.answer("GET", "proxy/api/serve/applications/$", (200, {"applications": {"tiny": application}}))


@pytest.mark.usefixtures("deployed")
def test_no_secret_is_in_it(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    plant(api)
    result = run("bundle", "tiny", "-o", str(tmp_path / "b"))
    assert result.code == 0, str(result)
    assert result.out == f"{tmp_path / 'b'}\n"
    held = contents(tmp_path / "b")
    assert re.findall(rf"{PLAIN}[\w-]*", held) == []
    assert HUB not in held
    assert base64.b64encode(f"{PLAIN}-secret".encode()).decode() not in held
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
    masked = re.sub(rf"((?:token|password)[=: ]+|--api-key )?(u:)?{PLAIN}[\w-]*", r"\1***", live.out)
    assert json.loads(recorded.out) == json.loads(masked)


@pytest.mark.usefixtures("deployed")
def test_the_name_is_that_of_the_bundle(run: Run, tmp_path: Path) -> None:
    assert run("bundle", "tiny", "-o", str(tmp_path / "b")).code == 0
    named = run("status", "tiny", "--from", str(tmp_path / "b"))
    assert named.code == 0
    assert run("status", "--from", str(tmp_path / "b")) == named
    meta = tmp_path / "b" / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "name": None}))
    assert run("status", "--from", str(tmp_path / "b")) == named
    (tmp_path / "b" / "objects.json").write_text('{"items": []}')
    result = run("status", "--from", str(tmp_path / "b"))
    assert (result.code, "has 0 services: NAME says which" in result.err) == (2, True)


@pytest.mark.usefixtures("deployed")
def test_flags_of_a_cluster_have_no_effect_on_it(run: Run, tmp_path: Path) -> None:
    assert run("bundle", "tiny", "-o", str(tmp_path / "b")).code == 0
    recorded = ("status", "--from", str(tmp_path / "b"))
    assert run(*recorded, "-n", "llm").code == 0
    for flags in (("--context", "c"), ("--kubeconfig", "k"), ("--as", "me"), ("--request-timeout", "1s")):
        refused = run(*recorded, "-n", "llm", *flags)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err == (
            f"✗ --from asks no cluster: {flags[0]} cannot be combined with it\n\nhint: remove {flags[0]}\n"
        )


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
