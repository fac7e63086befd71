"""Ray's token where the spec file says nothing of it: when it is rendered, and when it is left out."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI

SPEC = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: tiny, namespace: llm}
spec:
  model: {id: tiny, path: /models/tiny}
  engine: {image: example.com/vllm-cpu:1, maxModelLen: 1024}
  accelerator: {kind: cpu}
"""
NONE = SPEC + "  ray: {authentication: {mode: none}}\n"
TOKEN = SPEC + "  ray: {authentication: {mode: token}}\n"
PATCHED = (
    SPEC
    + """\
  patches:
  - target: {kind: RayService}
    patch: {spec: {rayClusterConfig: {authOptions: {mode: token}}}}
"""
)
BATCH = """\
apiVersion: rayllm.io/v1alpha1
kind: BatchJob
metadata: {name: job, namespace: llm}
spec:
  model: {id: meta-llama/Llama-3.1-8B-Instruct}
  accelerator: {gpu: L4}
  engine: {maxModelLen: 8192}
  input: {paths: ["s3://bucket/in/*.jsonl"]}
  prompt: {template: "Summarize: {{ text }}"}
  output: {path: s3://bucket/out}
"""
ON = {"mode": "token"}
CONDITION = '{% if ray.authentication.mode == "token" %}'
UNCHANGED = "off, as in the running service; spec.ray.authentication.mode: token turns it on in a new RayCluster"
SERVE = Path(__file__).parents[1] / "serveconfigs" / "chat.yaml"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return tmp_path / "spec.yaml"


def rendered(run: Run, spec: Path, text: str, *flags: str) -> tuple[Any, str]:
    """authOptions of what `render` prints, and its standard error."""
    spec.write_text(text, encoding="utf-8")
    result = run("render", "-f", str(spec), "--offline", *flags)
    assert result.code == 0, str(result)
    [workload] = [one for one in yaml.safe_load_all(result.out) if one["apiVersion"] == "ray.io/v1"]
    key = {"RayService": "rayClusterConfig", "RayJob": "rayClusterSpec"}[workload["kind"]]
    return workload["spec"][key].get("authOptions"), result.err


def applied(run: Run, api: FakeAPI, spec: Path, text: str, *flags: str) -> tuple[Any, str]:
    """authOptions of the live object after `apply`, and what that said."""
    spec.write_text(text, encoding="utf-8")
    result = run("apply", "-f", str(spec), "--offline", *flags)
    assert result.code == 0, str(result)
    return api.stored("RayService", "tiny")["spec"]["rayClusterConfig"].get("authOptions"), result.err


def operator_of(api: FakeAPI, version: str) -> None:
    operator = api.stored("Deployment", "kuberay-operator", "kuberay-system")
    operator["spec"]["template"]["spec"]["containers"][0]["image"] = f"quay.io/kuberay/operator:v{version}"
    api.put(**operator)


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [
        (SPEC, (), ON),
        (NONE, (), None),
        (SPEC, ("--kuberay-version", "1.5"), ON),
        (SPEC, ("--kuberay-version", "1.4"), None),
        (PATCHED, (), ON),
        (BATCH, (), ON),
        (BATCH, ("--kuberay-version", "1.4"), None),
    ],
)
def test_what_is_rendered(run: Run, spec: Path, text: str, flags: tuple[str, ...], expected: Any) -> None:
    found, said = rendered(run, spec, text, *flags)
    assert found == expected
    assert ("token authentication is off: KubeRay 1.4 does not support it (requires 1.5.1)" in said) is ("1.4" in flags)


def test_a_serve_configuration(run: Run) -> None:
    flags = ("render", "--serve-config", str(SERVE), "--image", "rayproject/ray:2.60.0")
    assert "authOptions" in run(*flags).out
    older = run(*flags, "--kuberay-version", "1.4")
    assert "authOptions" not in older.out
    assert "token authentication is off" in older.err


def test_a_token_that_was_asked_for_is_rejected_by_an_older_kuberay(run: Run, spec: Path) -> None:
    for text in (TOKEN, PATCHED):
        spec.write_text(text, encoding="utf-8")
        result = run("render", "-f", str(spec), "--offline", "--kuberay-version", "1.4")
        assert "authOptions: unknown field in KubeRay 1.4" in result.err


@pytest.mark.parametrize(("version", "expected"), [("1.4.2", None), ("1.5.0", None), ("1.5.1", ON), ("1.7.0", ON)])
def test_deploy_looks_at_the_version_of_kuberay(
    run: Run, api: FakeAPI, spec: Path, version: str, expected: Any
) -> None:
    operator_of(api, version)
    found, said = applied(run, api, spec, SPEC)
    assert found == expected
    assert (f"token authentication: off: KubeRay {version} does not support it (requires 1.5.1)" in said) is (
        expected is None
    )


def test_a_service_that_runs_without_a_token_is_left_as_it_is(run: Run, api: FakeAPI, spec: Path) -> None:
    assert applied(run, api, spec, NONE)[0] is None
    found, said = applied(run, api, spec, SPEC)
    assert found is None
    assert "rayservice/tiny unchanged" in said
    assert UNCHANGED in " ".join(said.split())
    difference = run("diff", "-f", str(spec), "--offline")
    assert difference.code == 0, str(difference)
    assert UNCHANGED in " ".join((difference.out + difference.err).split())


@pytest.mark.parametrize("text", [TOKEN, PATCHED])
def test_a_token_that_was_asked_for_is_turned_on(run: Run, api: FakeAPI, spec: Path, text: str) -> None:
    assert applied(run, api, spec, NONE)[0] is None
    found, said = applied(run, api, spec, text)
    assert found == ON
    assert "token authentication" not in said


def test_a_token_of_a_template_of_the_users_own_is_kept(run: Run, api: FakeAPI, spec: Path, tmp_path: Path) -> None:
    assert applied(run, api, spec, NONE)[0] is None
    shipped = (resources.files("rayllm_ctl.render") / "templates" / "cluster.yaml.j2").read_text(encoding="utf-8")
    assert shipped.count(CONDITION) == 1
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "cluster.yaml.j2").write_text(shipped.replace(CONDITION, "{% if true %}"), encoding="utf-8")
    found, said = applied(run, api, spec, SPEC, "--template-dir", str(tmp_path / "own"))
    assert found == ON
    assert "token authentication" not in said


def test_a_service_with_a_token_keeps_it(run: Run, api: FakeAPI, spec: Path) -> None:
    assert applied(run, api, spec, SPEC)[0] == ON
    found, said = applied(run, api, spec, SPEC)
    assert found == ON
    assert "rayservice/tiny unchanged" in said
    assert run("diff", "-f", str(spec), "--offline").code == 0


def test_check_says_it_before_a_deployment(run: Run, api: FakeAPI, spec: Path) -> None:
    operator_of(api, "1.4.2")
    spec.write_text(SPEC, encoding="utf-8")
    result = run("check", "-f", str(spec), "--offline")
    assert result.code == 0, str(result)
    assert "token authentication: off: KubeRay 1.4.2 does not support it (requires 1.5.1)" in result.out


def test_a_batch_job_on_an_older_kuberay(run: Run, api: FakeAPI, spec: Path) -> None:
    operator_of(api, "1.4.2")
    spec.write_text(BATCH, encoding="utf-8")
    result = run("batch", "submit", "-f", str(spec), "--offline", "--no-wait")
    assert result.code == 0, str(result)
    assert "token authentication: off: KubeRay 1.4.2" in result.err
    assert "authOptions" not in api.stored("RayJob", "job")["spec"]["rayClusterSpec"]
