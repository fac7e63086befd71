"""The ways in which users prove who they are, each against the real API server."""

from __future__ import annotations

import base64
import json
import stat
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import Bench, Object, Target

pytestmark = pytest.mark.xdist_group("simulated")

ROOT = Path(__file__).parents[1]
SITE = Path(sysconfig.get_path("purelib"))


def as_user(bench: Bench, user: Object, folder: Path) -> Bench:
    """The same bench with `user` as the only entry of the kubeconfig's users."""
    config = yaml.safe_load(bench.target.kubeconfig.read_text())
    config["users"] = [{"name": one["name"], "user": user} for one in config["users"]]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return Bench(replace(bench.target, kubeconfig=path), bench.namespace)


def admin(bench: Bench) -> Any:
    """The user of the rig's own kubeconfig."""
    [one] = yaml.safe_load(bench.target.kubeconfig.read_text())["users"]
    return one["user"]


def reads(bench: Bench) -> None:
    """A command that reads many kinds says that there is nothing."""
    done = bench.run("status", "-n", bench.namespace)
    assert "no services" in (done.out + done.err).lower(), str(done)


@pytest.mark.parametrize("form", ["data", "files"])
def test_a_client_certificate_leaves_no_key_behind(
    shared: Bench, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    given = admin(shared)
    user: Object = {}
    for name in ("client-certificate", "client-key"):
        text = base64.b64decode(given[f"{name}-data"]) if f"{name}-data" in given else Path(given[name]).read_bytes()
        if form == "files":
            (tmp_path / name).write_bytes(text)
            user[name] = str(tmp_path / name)
        else:
            user[f"{name}-data"] = base64.b64encode(text).decode()
    reads(as_user(shared, user, tmp_path))
    assert list(temporary.rglob("*")) == []


def plugin(folder: Path, text: str) -> Object:
    """A user whose credentials a program prints."""
    program = folder / "plugin"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(program), "interactiveMode": "Never"}}


def token(bench: Bench, name: str) -> str:
    """A token of a new service account that may view the namespace and read services."""
    bench.kubectl("create", "serviceaccount", name, "-n", bench.namespace)
    subject = f"--serviceaccount={bench.namespace}:{name}"
    printed = bench.run("rbac", "--for", "status", "-n", bench.namespace).out
    rules = [rule for item in yaml.safe_load_all(printed) if item and item["kind"] == "Role" for rule in item["rules"]]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": rules}
    bench.apply(role)
    bench.kubectl("create", "rolebinding", name, f"--role={name}", subject, "-n", bench.namespace)
    return bench.kubectl("create", "token", name, "-n", bench.namespace).strip()


def test_a_plugin_gives_a_token(shared: Bench, tmp_path: Path) -> None:
    credential = json.dumps({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token(shared, "plugin")},
    })  # fmt: skip
    reads(as_user(shared, plugin(tmp_path, f"echo '{credential}'"), tmp_path))


def test_what_a_plugin_that_fails_says_is_the_reason(shared: Bench, tmp_path: Path) -> None:
    user = plugin(tmp_path, "echo 'the login has expired' >&2; exit 7")
    done = as_user(shared, user, tmp_path).run("status", "-n", shared.namespace, code=None)
    assert done.code not in (0, None), str(done)
    assert "the login has expired" in done.err, str(done)


def test_an_impersonated_user_has_its_own_rights(shared: Bench, tmp_path: Path) -> None:
    nobody = f"system:serviceaccount:{shared.namespace}:nobody"
    user = {**admin(shared), "as": nobody}
    done = as_user(shared, user, tmp_path).run("status", "-n", shared.namespace, code=None)
    assert done.code != 0, str(done)
    assert nobody in done.err, str(done)
    assert "rayservices" in done.err, str(done)


def test_a_pod_uses_its_service_account(shared: Bench, target: Target) -> None:
    """The checkout and the packages of this interpreter are mounted; the image has the same Python."""
    if not target.own:
        pytest.skip("mounts folders of this machine")
    token(shared, "inside")
    shared.kubectl(
        "label", "namespace", shared.namespace, "pod-security.kubernetes.io/enforce=privileged", "--overwrite"
    )
    mounts = {"checkout": ROOT, "packages": SITE}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "inside"},
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": "inside",
            "containers": [
                {
                    "name": "main",
                    "image": target.image,
                    "command": ["python3", "-m", "rayllm_ctl", "status", "-n", shared.namespace],
                    "env": [{"name": "PYTHONPATH", "value": "/checkout:/packages"}, {"name": "HOME", "value": "/tmp"}],
                    "volumeMounts": [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in mounts],
                }
            ],
            "volumes": [{"name": name, "hostPath": {"path": str(path)}} for name, path in mounts.items()],
        },
    }
    shared.apply(pod)

    def ended() -> bool:
        phase = shared.kubectl("get", "pod", "inside", "-n", shared.namespace, "-o", "jsonpath={.status.phase}")
        return phase in ("Succeeded", "Failed")

    shared.wait("the command in the pod ends", ended, timeout=120)
    said = shared.kubectl("logs", "inside", "-n", shared.namespace)
    assert "no services" in said.lower(), said
