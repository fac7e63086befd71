"""The code of rayllm-ctl in the pods of a service: its history, its release, and services of earlier releases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl import __version__
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.render import servingcode
from tests.cli.access.test_keys import SPEC
from tests.cli.conftest import Run
from tests.cli.test_commands_rights import grants
from tests.cluster.fakeapi import FakeAPI

GATEWAY = SPEC + "  gateway: {}\n"
INGRESS = "chat-ingress-code"
PIPELINE = "rayllm_ctl/serving/gateway/pipeline.py"


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "chat.yaml"
    path.write_text(GATEWAY, encoding="utf-8")
    return str(path)


def deploy(run: Run, spec: str, *flags: str) -> str:
    result = run("deploy", "-f", spec, "--offline", "--no-wait", *flags)
    assert result.code == 0, str(result)
    return result.err


def release(monkeypatch: pytest.MonkeyPatch, version: str, module: str, text: str) -> None:
    """Another release of rayllm-ctl, which differs in one module."""
    changed = {**servingcode.files(), module: text}
    monkeypatch.setattr(servingcode, "files", lambda: changed)
    monkeypatch.setattr(servingcode, "__version__", version)
    for kept in (servingcode.ingress_files, servingcode.models_files):
        monkeypatch.setattr(servingcode, kept.__name__, kept.__wrapped__)


def stored(api: FakeAPI, kind: str) -> list[dict[str, Any]]:
    return [api.stored(kind, name) for name in api.names(kind)]


def config(api: FakeAPI) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(api.stored("RayService", "chat")["spec"]["serveConfigV2"])
    return found


def ingress_digest(api: FakeAPI) -> str:
    return str(config(api)["applications"][0]["runtime_env"]["env_vars"]["RAYLLM_INGRESS_CODE"])


def test_revisions_have_the_digest_and_not_the_code(run: Run, api: FakeAPI, spec: str) -> None:
    deploy(run, spec)
    [revision] = stored(api, "ControllerRevision")
    assert len(json.dumps(revision)) < 30_000
    kept = {item["metadata"]["name"]: item for item in revision["data"]["manifests"] if item["kind"] == "ConfigMap"}
    assert len(kept) == 2
    for name, item in kept.items():
        assert "binaryData" not in item
        live = api.stored("ConfigMap", name)
        assert item["metadata"]["annotations"].items() <= live["metadata"]["annotations"].items()
        assert live["binaryData"]
    assert "unchanged" in deploy(run, spec)
    assert len(stored(api, "ControllerRevision")) == 1


def test_scale_keeps_the_code(run: Run, api: FakeAPI, spec: str) -> None:
    deploy(run, spec)
    before = {item["metadata"]["name"]: item["binaryData"] for item in stored(api, "ConfigMap")}
    result = run("scale", "chat", "-n", "llm", "--max-replicas", "3", "--no-wait")
    assert result.code == 0, str(result)
    assert {item["metadata"]["name"]: item["binaryData"] for item in stored(api, "ConfigMap")} == before
    assert run("rollback", "chat", "-n", "llm", "--no-wait").code == 0
    assert {item["metadata"]["name"]: item["binaryData"] for item in stored(api, "ConfigMap")} == before


def test_another_gateway_changes_no_pod(run: Run, api: FakeAPI, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(run, spec)
    before, first = api.stored("RayService", "chat")["spec"]["rayClusterConfig"], ingress_digest(api)
    release(monkeypatch, "9.0.0", PIPELINE, servingcode.files()[PIPELINE] + "\nADDED = 1\n")
    said = run("diff", "-f", spec, "--offline")
    assert "code of the ingress" in said.out
    assert f"different code, that of rayllm-ctl 9.0.0 for that of {__version__}; running processes keep" in said.out
    assert "equivalent code from another release of rayllm-ctl, or with different comments" in said.out
    assert "RayCluster" not in said.out
    assert len(said.out) < 10_000  # sizes and digests of the zip files, not their bytes
    assert "bytes, sha256 " in said.out
    deploy(run, spec, "--accept-outage")  # of the only replica of an ingress on CPUs
    assert api.stored("RayService", "chat")["spec"]["rayClusterConfig"] == before
    assert ingress_digest(api) != first
    changes = json.loads(run("history", "chat", "-n", "llm", "-o", "json").out)["items"][-1]["change"]
    assert changes == f"code of the ingress {first} → {ingress_digest(api)}"
    assert f"{ingress_digest(api)}.zip" in api.stored("ConfigMap", INGRESS)["binaryData"]


def test_a_rollback_over_releases_keeps_the_code_of_the_ingress(
    run: Run, api: FakeAPI, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(run, spec)
    Path(spec).write_text(SPEC + "  gateway: {docs: true}\n", encoding="utf-8")
    release(monkeypatch, "9.0.0", PIPELINE, servingcode.files()[PIPELINE] + "\nADDED = 1\n")
    deploy(run, spec, "--accept-outage")
    present = ingress_digest(api)
    result = run("rollback", "chat", "-n", "llm", "--no-wait")
    assert result.code == 0, str(result)
    assert (
        f"the ingress keeps its current code, of rayllm-ctl 9.0.0: that of the revision, of rayllm-ctl {__version__}, "
        "is not kept"
    ) in " ".join(result.err.split())
    assert ingress_digest(api) == present
    assert api.stored("ConfigMap", INGRESS)["metadata"]["annotations"]["rayllm.io/code-digest"] == present
    assert config(api)["applications"][0]["deployments"][0]["user_config"]["gateway"]["docs"] is False


def test_a_rollback_takes_the_code_of_models_from_the_cluster(
    run: Run, api: FakeAPI, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(run, spec)
    [models] = [
        item["metadata"]["name"] for item in stored(api, "ConfigMap") if "-serving-" in item["metadata"]["name"]
    ]
    code = api.stored("ConfigMap", models)["binaryData"]
    proxy = "rayllm_ctl/serving/proxy.py"
    release(monkeypatch, "9.0.0", proxy, servingcode.files()[proxy] + "\nADDED = 1\n")
    assert "code of models and proxies" in run("diff", "-f", spec, "--offline").out
    deploy(run, spec)
    # Pods of the cluster that still serves mount it, and revisions name it.
    assert api.stored("ConfigMap", models)["binaryData"] == code
    result = run("rollback", "chat", "-n", "llm", "--no-wait")
    assert result.code == 0, str(result)
    assert models in json.dumps(api.stored("RayService", "chat")["spec"])
    assert api.stored("ConfigMap", models)["binaryData"] == code
    api.remove("ConfigMap", models)
    gone = run("rollback", "chat", "-n", "llm", "--to", "1")
    assert gone.code == 1
    assert f"ConfigMap llm/{models} with the code of the revision is gone; rayllm-ctl {__version__} has it" in gone.err
    assert f"hint: install rayllm-ctl {__version__}, and deploy the spec file of the revision with it" in gone.err


def test_a_service_of_an_earlier_release_is_upgraded(run: Run, api: FakeAPI, spec: str) -> None:
    deploy(run, spec)
    item = api.stored("RayService", "chat")
    text = json.dumps(item["spec"]).replace("/rayllm.zip", "")
    [models] = [one["metadata"]["name"] for one in stored(api, "ConfigMap") if "-serving-" in one["metadata"]["name"]]
    old = "chat-serving-0ld0ld00"
    earlier = json.loads(text.replace(models, old))
    for template in (
        earlier["rayClusterConfig"]["headGroupSpec"], *earlier["rayClusterConfig"]["workerGroupSpecs"]
    ):  # fmt: skip
        pod = template["template"]["spec"]
        pod["volumes"] = [one for one in pod["volumes"] if one["name"] != "ingress-code"]
    api.put(**{**item, "spec": earlier})
    was = api.stored("ConfigMap", models)
    metadata = {**was["metadata"], "name": old, "annotations": {}}
    api.put(kind="ConfigMap", metadata=metadata, data={"rayllm_ctl.serving.__init__.py": "# code\n"}, immutable=True)
    shown = run("version", "chat", "-n", "llm").out
    assert f"ingress and models: an earlier rayllm-ctl, 0ld0ld00 ({old}), different from this rayllm-ctl" in shown
    said = run("diff", "-f", spec, "--offline").out
    assert "KubeRay starts a second RayCluster" in said
    assert "The code of models and proxies changes to that of this version of rayllm-ctl" in said
    deploy(run, spec)
    assert api.stored("ConfigMap", old)["data"]


def test_version_says_which_release_wrote_the_code(
    run: Run, api: FakeAPI, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(run, spec)
    result = run("version", "chat", "-n", "llm")
    assert result.code == 0, str(result)
    lines = [line for line in result.out.splitlines() if line.startswith("code")]
    digest = ingress_digest(api)
    assert (
        lines[0]
        == f"code        ingress: rayllm-ctl {__version__}, {digest[:8]} ({INGRESS}), the same as in this rayllm-ctl"
    )
    assert lines[1].startswith(f"code        models: rayllm-ctl {__version__}, ")
    release(monkeypatch, "9.0.0", PIPELINE, servingcode.files()[PIPELINE] + "\nADDED = 1\n")
    ingress, models = json.loads(run("version", "chat", "-n", "llm", "-o", "json").out)["code"]
    assert (ingress["part"], ingress["version"], ingress["current"]) == ("ingress", __version__, False)
    assert (models["part"], models["version"], models["current"]) == ("models", __version__, True)
    assert run("version", "chat", "--client").code == 2
    assert run("version", "none", "-n", "llm").code == 1


def test_version_needs_no_other_right(run: Run, api: FakeAPI, spec: str) -> None:
    deploy(run, spec)
    rights = RAY_SERVICE.rights_for("version")
    api.granted = grants(*rights.needed, *rights.display)
    result = run("version", "chat", "-n", "llm")
    assert result.code == 0, str(result)
    api.granted = grants(*rights.needed)
    assert "not permitted to get configmaps in namespace llm" in run("version", "chat", "-n", "llm").out


def test_version_of_a_service_without_code(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    path = tmp_path / "plain.yaml"
    path.write_text(SPEC, encoding="utf-8")
    deploy(run, str(path))
    assert (
        run("version", "chat", "-n", "llm").out.splitlines()[-1] == "code        chat does not mount code of rayllm-ctl"
    )
