"""`diff` as a whole, against a fake API server and with files: what it prints, and its exit codes."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.model.kube import kuberay
from tests.cli.conftest import Deploy, Result, Run
from tests.cluster.fakeapi import FakeAPI, status
from tests.cluster.fakekuberay import SUFFIX
from tests.conftest import Golden

TINY = (
    "--model", "tiny", "--model-path", "/models/tiny", "--accelerator", "cpu", "--max-model-len", "1024",
    "--volume", "pvc:models:/models", "--offline",
)  # fmt: skip
IMAGE = ("--image", "example.com/vllm-cpu:1")
OTHER_IMAGE = ("--image", "example.com/vllm-cpu:2")
SPEC = """apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: tiny}
spec: {model: {id: tiny, path: /models/tiny}, accelerator: {kind: cpu}, engine: {image: "example.com/x:1"}}
"""

_CONTEXT = re.compile(r"^ .*\n|(?<=^@@) .*(?=\n)", re.M)


def without_context(text: str) -> str:
    """Without the lines around a change, which differ whenever something else is rendered."""
    before, start, after = text.partition("\ndiff -u -N ")
    if '"diff": "' in text:
        return re.sub(r'("diff": ).*', lambda match: match[1] + json.dumps("..."), text)
    return before + start + _CONTEXT.sub("", after)


@pytest.fixture
def deployed(deploy: Deploy) -> None:
    deploy(*TINY, *IMAGE)


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("name", "flags", "code"),
    [
        ("nothing", IMAGE, 0),
        ("bounds", (*IMAGE, "--max-replicas", "3"), 1),
        ("engine-argument", (*IMAGE, "--max-num-seqs", "7"), 1),
        ("image", OTHER_IMAGE, 1),
        ("image-too-large", (*OTHER_IMAGE, "--memory", "900Gi"), 1),
        ("no-capacity", (*OTHER_IMAGE, "--memory", "900Gi", "--fail-on", "no-capacity"), 6),
        ("markdown", (*OTHER_IMAGE, "-o", "markdown"), 1),
        ("json", (*OTHER_IMAGE, "--max-replicas", "3", "-o", "json"), 1),
        ("kubectl", (*IMAGE, "--max-replicas", "3", "-o", "diff"), 1),
        ("policy", (*OTHER_IMAGE, "--fail-on", "new-cluster", "--fail-on", "outage", "-o", "json"), 6),
    ],
)
def test_a_change_of_what_runs(run: Run, golden: Golden, name: str, flags: tuple[str, ...], code: int) -> None:
    result = run("diff", *TINY, *flags)
    golden.check(f"diff/{name}.txt", without_context(str(result)))
    assert result.code == code


def test_a_new_service(run: Run, api: FakeAPI) -> None:
    result = run("diff", *TINY, *IMAGE)
    assert result.code == 1
    assert result.out.startswith(
        "+ RayService llm/tiny\n  created             KubeRay starts a RayCluster. Its pods request "
    )
    assert "\n+kind: RayService\n" in result.out
    assert api.count("PATCH", ".") == 1
    assert run("status", "tiny").code == 1


def test_nothing_is_written(run: Run, api: FakeAPI, deployed: None) -> None:
    before = api.stored("RayService", "tiny")
    run("diff", *TINY, *OTHER_IMAGE)
    assert api.stored("RayService", "tiny") == before
    patches = [request for request in api.requests if request.method == "PATCH"]
    assert patches[-1].query["dryRun"] == "All"


def test_running_replicas_are_those_that_serve_reports(run: Run, api: FakeAPI, deployed: None) -> None:
    running = [{"state": "RUNNING"}, {"state": "RUNNING"}, {"state": "STARTING"}]
    answer = {"applications": {"tiny": {"deployments": {"LLMServer:tiny": {"replicas": running}}}}}
    path = f"{kuberay.head_service(f'tiny-{SUFFIX}')}:dashboard/proxy/api/serve/applications/$"
    api.answer("GET", path, (200, answer))
    result = run("diff", *TINY, *IMAGE, "--max-num-seqs", "7")
    assert "LLMServer:tiny (2 replicas, 1 at a time)" in result.out
    api.answer("GET", path, status(503, "no endpoints available"))
    unread = run("diff", *TINY, *IMAGE, "--max-num-seqs", "7").out
    assert "LLMServer:tiny, OpenAiIngress; how many of them run is unknown: Serve's state could not be read" in unread
    assert "rayllm-ctl status tiny -n llm    # why Serve does not answer" in unread


def test_without_serves_controller_running_replicas_are_unknown(run: Run, api: FakeAPI, deployed: None) -> None:
    path = f"{kuberay.head_service(f'tiny-{SUFFIX}')}:dashboard/proxy/api/serve/applications/$"
    api.answer("GET", path, (200, {"controller_info": {}, "proxies": {}, "applications": {}}))
    change = (*TINY, *IMAGE, "--max-num-seqs", "7", "--min-replicas", "2", "--max-replicas", "2")
    compared = run("diff", *change).out
    assert "how many of them run is unknown: Serve's state could not be read (Ray's dashboard does not" in compared
    refused = run("deploy", *change, "--upgrade", "in-place", "--no-wait")
    assert (refused.code, "--accept-outage" in refused.err) == (1, True), str(refused)
    # A RayCluster that never served has no controller at first, and nothing that runs.
    service = api.stored("RayService", "tiny")
    api.put(**{**service, "status": {"pendingServiceStatus": {"rayClusterName": f"tiny-{SUFFIX}"}}})
    assert "is unknown" not in run("diff", *change).out


def test_bounds_that_only_the_rayservice_has_are_noted(run: Run, api: FakeAPI, deployed: None) -> None:
    live = api.stored("RayCluster", f"tiny-{SUFFIX}")
    live["spec"]["workerGroupSpecs"][0]["maxReplicas"] = 7
    api.put(**live)
    result = run("diff", *TINY, *IMAGE)
    assert (result.code, result.out) == (0, "")
    assert "note: the live RayCluster has other replica bounds than its RayService" in result.err
    assert f"kubectl patch raycluster tiny-{SUFFIX} -n llm --type=json -p " in result.err
    assert '"path": "/spec/workerGroupSpecs/0/maxReplicas", "value": 1' in result.err


def test_an_object_that_is_no_longer_rendered(run: Run, api: FakeAPI, deployed: None) -> None:
    from rayllm_ctl.model.kube.labels import MANAGER, service_labels

    labels = service_labels("tiny", "0.29.0")
    ours = [{"manager": MANAGER, "operation": "Apply"}]
    api.put(kind="NetworkPolicy", metadata={"name": "tiny", "labels": labels, "managedFields": ours})
    api.put(kind="ConfigMap", metadata={"name": "copied", "labels": labels})
    result = run("diff", *TINY, *IMAGE)
    assert result.code == 1
    assert (
        "- NetworkPolicy llm/tiny\n  deleted             no longer rendered: rayllm-ctl deploy deletes it" in result.out
    )
    assert "-kind: NetworkPolicy" in result.out
    assert "copied" not in result.out
    deployed_again = run("deploy", *TINY, *IMAGE, "--no-wait")
    assert "networkpolicy/tiny deleted" in deployed_again.err


def test_fields_of_another_manager_are_a_conflict(run: Run, api: FakeAPI, deployed: None) -> None:
    conflict = {"reason": "FieldManagerConflict", "message": 'conflict with "argocd"', "field": ".spec.serveConfigV2"}
    api.answer("PATCH", "rayservices", status(409, "conflict", "Conflict", causes=[conflict]))
    result = run("diff", *TINY, *OTHER_IMAGE)
    assert (result.code, result.out) == (4, "")
    assert "spec.serveConfigV2  is owned by argocd" in result.err
    assert "--field-manager" in result.err
    assert "--force-conflicts" in result.err


def test_another_field_manager_owns_what_it_changes(run: Run, api: FakeAPI) -> None:
    assert run("deploy", *TINY, *IMAGE, "--no-wait").code == 0
    api.update("argocd-controller", "RayService", "tiny", spec={"serveConfigV2": "a: 1\n"})
    assert run("diff", *TINY, *IMAGE).code == 4
    result = run("diff", *TINY, *IMAGE, "--field-manager", "argocd-controller", "--force-conflicts")
    assert result.code == 1
    patch = [request for request in api.requests if request.method == "PATCH"][-1]
    assert (patch.query["fieldManager"], patch.query["force"]) == ("argocd-controller", "true")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((*TINY, *IMAGE, "--tp", "x"), 2, "--tp"),
        ((*TINY, "--image", "x:1", "-n", "nowhere"), 7, "namespace nowhere does not exist"),
        ((*TINY[:-1], "--model-config", "/nowhere", *IMAGE), 2, "/nowhere"),
        (("--local", "a", "b", "--model", "x"), 2, "--local"),
        (("--local", "nowhere", "."), 2, "nowhere"),
        (("--local", ".", ".", "-n", "llm", "--force-conflicts"), 2, "-n, --force-conflicts cannot be combined"),
        (
            ("--local", ".", ".", "--as", "me", "--request-timeout", "1s"),
            2,
            "--as, --request-timeout cannot be combined",
        ),
        (("--model", "meta-llama/Llama-3.1-70B-Instruct", "--gpu", "L4", "--tp", "1", "--offline"), 7, "fit"),
        (("--model", "nobody/nothing", "--offline"), 7, "nobody/nothing"),
    ],
)
def test_a_failure_is_no_difference(run: Run, arguments: tuple[str, ...], code: int, words: str) -> None:
    result = run("diff", *arguments)
    assert result.code == code, str(result)
    assert result.out == ""
    assert words in result.err


def test_a_defect_is_no_difference(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("rayllm_ctl.workflows.rollout.diff.diff", broken)
    assert run("diff", *TINY, *IMAGE).code == 7
    monkeypatch.setattr("rayllm_ctl.workflows.render.service.make_plan", broken)
    assert run("render", *TINY, *IMAGE).code == 1


def test_rights_that_are_missing_are_named(run: Run, api: FakeAPI, deployed: None) -> None:
    api.granted = {
        ("get", "rayservices.ray.io", False),
        ("list", "deployments.apps", True),
        ("get", "namespaces", True),
    }
    result = run("diff", *TINY, *OTHER_IMAGE)
    assert result.code == 5
    assert "create rayservices.ray.io, patch rayservices.ray.io" in result.err


def test_without_the_right_to_look_around_it_says_less(run: Run, api: FakeAPI, deployed: None) -> None:
    api.granted = {(verb, "rayservices.ray.io", False) for verb in ("get", "create", "patch")}
    result = run("diff", *TINY, *OTHER_IMAGE)
    assert result.code == 1
    assert "new-cluster" in result.out
    assert "capacity" not in result.out


@pytest.fixture
def external(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that records its arguments and the files that it gets, and exits with what the file `code` says."""
    program, folder = tmp_path / "mydiff", tmp_path / "record"
    folder.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport json, pathlib, sys\nhere = pathlib.Path({str(folder)!r})\n"
        "sides = [{f.name: f.read_text() for f in pathlib.Path(a).iterdir()} for a in sys.argv[1:3]]\n"
        "names = [pathlib.Path(a).name for a in sys.argv[1:3]]\n"
        "(here / 'call').write_text(json.dumps([names, sys.argv[3:], sides]))\n"
        "print('shown by mydiff', flush=True)\n"
        "sys.exit(int((here / 'code').read_text()))\n"
    )
    program.chmod(0o755)
    (folder / "code").write_text("1")
    monkeypatch.setenv("KUBECTL_EXTERNAL_DIFF", f"{program} -N --color=always /etc/passwd")
    return folder


@pytest.mark.usefixtures("deployed")
def test_the_users_own_program_shows_the_differences(run: Run, external: Path) -> None:
    result = run("diff", *TINY, *OTHER_IMAGE, "-o", "diff")
    assert (result.code, result.out) == (1, "")
    assert "/etc/passwd is left out, as kubectl does" in result.err
    names, parameters, (before, after) = json.loads((external / "call").read_text())
    assert names == ["LIVE", "MERGED"]
    assert parameters == ["-N", "--color=always"]
    assert list(before) == list(after) == ["ray.io.v1.RayService.llm.tiny"]
    assert "example.com/vllm-cpu:1" in before["ray.io.v1.RayService.llm.tiny"]
    (external / "code").write_text("2")
    failed = run("diff", *TINY, *OTHER_IMAGE)
    assert failed.code == 7
    assert "failed with exit code 2" in failed.err


@pytest.mark.usefixtures("deployed")
def test_an_external_program_that_is_not_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECTL_EXTERNAL_DIFF", "/nowhere/colordiff")
    result = run("diff", *TINY, *OTHER_IMAGE)
    assert result.code == 7
    assert "/nowhere/colordiff cannot be run" in result.err


def test_files_are_compared_without_a_cluster(run: Run, api: FakeAPI, tmp_path: Path, golden: Golden) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "tiny"}, "spec": {}}
    for folder, flags, other in ((old, IMAGE, "policy.json"), (new, (*IMAGE, "--max-num-seqs", "7"), "config.yaml")):
        folder.mkdir()
        (folder / "service.yaml").write_text(run("render", *TINY, *flags).out)
        (folder / "kustomization.yaml").write_text(f"kind: Kustomization\nresources: [{other}, service.yaml]\n")
    (old / "policy.json").write_text(json.dumps(policy))
    (new / "config.yaml").write_text(json.dumps({**policy, "kind": "ConfigMap", "apiVersion": "v1"}))
    result = run("diff", "--local", str(old), str(new))
    golden.check("diff/local.txt", without_context(str(result)))
    assert result.code == 1
    assert run("diff", "--local", str(new), str(new)).code == 0
    assert api.requests == []


def test_the_sides_of_a_difference_have_colors(run: Run, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(SPEC)
    new.write_text(SPEC.replace("x:1", "x:2"))
    colored = run("--color", "always", "diff", "--local", str(old), str(new)).out
    assert re.search(r"\n\x1b\[31m-[^\n]*x:1\x1b\[0m\n", colored)
    assert re.search(r"\n\x1b\[32m\+[^\n]*x:2\x1b\[0m\n", colored)
    assert re.sub(r"\x1b\[\d+m", "", colored) == run("diff", "--local", str(old), str(new)).out


def test_spec_files_are_rendered_first(run: Run, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(SPEC)
    new.write_text(SPEC.replace("x:1", "x:2"))
    result = run("diff", "--local", str(old), str(new), "--offline", "--fail-on", "new-cluster")
    assert result.code == 6, str(result)
    assert "new-cluster       image (head, group cpu)  example.com/x:1 → example.com/x:2\n" in result.out
    assert "rejected by --fail-on\n  new-cluster: RayService tiny (image)" in result.err
    assert run("diff", "--local", str(old), str(new), "--offline", "--fail-on", "outage").code == 1
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(run("render", "-f", str(old), "--offline").out)
    assert run("diff", "--local", str(rendered), str(old), "--offline").code == 0


def test_one_of_the_files_may_be_standard_input(
    run: Run, api: FakeAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(SPEC)
    new.write_text(SPEC.replace("x:1", "x:2"))
    expected = run("diff", "--local", str(old), str(new))
    assert expected.code == 1

    def piped(data: bytes, *arguments: str) -> Result:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        return run("diff", "--local", *arguments)

    assert piped(new.read_bytes(), str(old), "-") == expected
    assert piped(old.read_bytes(), "-", str(new)) == expected
    rendered = run("render", "-f", str(old), "--offline").out
    assert piped(rendered.encode(), str(old), "-").code == 0
    both = piped(b"", "-", "-")
    assert (both.code, "standard input cannot be both files" in both.err) == (2, True)
    assert "standard input:1: the file is not valid UTF-8" in piped(b"\xff", str(old), "-").err
    assert "standard input: not a manifest" in piped(b"a: b", str(old), "-").err
    assert api.requests == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"kind: A\nb: [\n", "broken.yaml:3: not valid YAML: did not find expected node content"),
        (b"kind: A\n---\n\ta", "broken.yaml:3: not valid YAML: found character that cannot start any token"),
        (b"kind: A\nb: \xff\n", "broken.yaml:2: the file is not valid UTF-8"),
    ],
)
def test_a_broken_file_is_named_with_its_line(data: bytes, message: str, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_bytes(data)
    result = run("diff", "--local", str(file), str(file))
    assert (result.code, message in result.err) == (2, True), str(result)


BATCH = """apiVersion: rayllm.io/v1alpha1
kind: BatchJob
metadata: {name: answers}
spec:
  model: {id: tiny, path: /models/tiny}
  accelerator: {kind: cpu}
  engine: {image: "example.com/x:1", maxModelLen: 1024}
  input: {prompts: [a]}
  output: {path: s3://bucket/answers/}
"""


def test_a_batch_job_is_rendered_first(run: Run, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(BATCH)
    new.write_text(BATCH.replace("prompts: [a]", "prompts: [b]"))
    result = run("diff", "--local", str(old), str(new), "--offline")
    assert result.code == 1, str(result)
    assert "KubeRay ignores the change of a submitted job" in result.out
    assert "still mount ConfigMap answers-settings-" in result.out
    assert "at once" not in result.out
    assert run("diff", "--local", str(old), str(new), "--offline", "--fail-on", "not-rolled-out").code == 6


def test_a_kind_without_a_rule_is_unknown(run: Run, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    for file, size in ((old, 1), (new, 2)):
        file.write_text(f"{{apiVersion: a.example/v1, kind: Widget, metadata: {{name: w}}, spec: {{size: {size}}}}}\n")
    result = run("diff", "--local", str(old), str(new))
    assert "unknown" in result.out
    assert run("diff", "--local", str(old), str(new), "--fail-on", "unknown").code == 6


def test_a_service_without_requests_asks_for_no_resources(run: Run, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    for file, namespace in ((old, "one"), (new, "two")):
        head = "{rayStartParams: {}, template: {spec: {containers: [{name: h, image: x}]}}}"
        spec = f"{{rayClusterConfig: {{headGroupSpec: {head}}}}}"
        metadata = f"{{name: w, namespace: {namespace}}}"
        file.write_text(f"{{apiVersion: ray.io/v1, kind: RayService, metadata: {metadata}, spec: {spec}}}\n")
    result = run("diff", "--local", str(old), str(new))
    assert "KubeRay starts a RayCluster. Its pods request no resources\n" in result.out


def test_a_policy_rules_out_what_stops_answering(run: Run, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    for file, count in ((old, 1), (new, 0)):
        file.write_text(
            f"{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: w}}, spec: {{replicas: {count}}}}}\n"
        )
    result = run("diff", "--local", str(old), str(new), "--fail-on", "outage")
    assert (result.code, "outage: Deployment w" in result.err) == (6, True)


MANIFEST = "{apiVersion: v1, kind: Service, metadata: {name: a, labels: {team: chat}}, spec: {type: ClusterIP}}\n"
PATCHING = """resources: [../base]
patches:
- target: {kind: Service, name: a}
  patch: '[{op: replace, path: /metadata/labels/team, value: search}]'
"""


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """A folder with a base, and an overlay that changes a label."""
    for folder, text in (("base", "resources: [service.yaml]\n"), ("overlay", PATCHING)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kustomization.yaml").write_text(text)
    (tmp_path / "base" / "service.yaml").write_text(MANIFEST)
    return tmp_path


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(f"#!{sys.executable}\nimport sys\n{script}\n")
    file.chmod(0o755)


@pytest.mark.parametrize(("name", "verb"), [("kustomize", "build"), ("kubectl", "kustomize")])
def test_a_kustomization_that_changes_objects_is_built(
    run: Run, overlay: Path, monkeypatch: pytest.MonkeyPatch, name: str, verb: str
) -> None:
    built = MANIFEST.replace("chat", "search")
    program(overlay / "bin", name, f"sys.argv[1:] == [{verb!r}, {str(overlay / 'overlay')!r}] and print({built!r})")
    monkeypatch.setenv("PATH", str(overlay / "bin"))
    result = run("diff", "--local", str(overlay / "base"), str(overlay / "overlay"))
    assert result.code == 1, str(result)
    assert "label team  chat → search" in result.out
    assert "deleted" not in result.out


def test_a_kustomization_that_cannot_be_built_is_not_read_as_empty(
    run: Run, overlay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(overlay / "bin"))
    base, patching = str(overlay / "base"), str(overlay / "overlay")
    result = run("diff", "--local", base, patching)
    assert (result.code, result.out) == (2, "")
    assert f"hint: kubectl kustomize {patching} > FILE" in result.err
    assert run("diff", "--local", base, f"{patching}/kustomization.yaml").code == 2
    above = run("diff", "--local", base, str(overlay))
    assert above.code == 2
    assert f"{patching}/kustomization.yaml changes the files that it lists" in above.err
    program(overlay / "bin", "kustomize", "sys.exit('no such base')")
    assert "failed: no such base" in run("diff", "--local", base, patching).err
    said = "Warning: old\\nError: bad patch <\\na: b\\n>"
    program(overlay / "bin", "kustomize", f"sys.exit('{said}')")
    assert "failed: Error: bad patch <\n  a: b\n  >\n" in run("diff", "--local", base, patching).err
    program(overlay / "bin", "kustomize", "sys.exit('Error: bad patch <kind: Secret\\nstringData: {key: word-7}>')")
    result = run("diff", "--local", base, patching)
    assert result.code == 2
    assert "word-7" not in result.err
    assert f"hint: {overlay / 'bin'}/kustomize build {patching}" in result.err


def test_a_kustomization_that_lists_one_that_changes_objects_is_built(
    run: Run, overlay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (overlay / "kustomization.yaml").write_text("resources: [overlay]\n")
    built = MANIFEST.replace("chat", "search")
    program(overlay / "bin", "kustomize", f"sys.argv[2:] == [{str(overlay)!r}] and print({built!r})")
    monkeypatch.setenv("PATH", str(overlay / "bin"))
    for named in (overlay, overlay / "kustomization.yaml"):
        result = run("diff", "--local", str(overlay / "base"), str(named))
        assert result.code == 1, str(result)
        assert "label team  chat → search" in result.out
    (overlay / "kustomization.yaml").write_text("resources: [base]\n")
    assert run("diff", "--local", str(overlay / "base"), str(overlay)).code == 0
    (overlay / "base" / "kustomization.yaml").write_text("resources: [../]\n")
    program(overlay / "bin", "kustomize", "sys.exit('cycle detected')")
    assert "failed: cycle detected" in run("diff", "--local", str(overlay / "base"), str(overlay)).err


def test_spec_files_that_a_kustomization_changes_are_rendered(
    run: Run, overlay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, changed = overlay / "base" / "service.yaml", str(overlay / "overlay")
    base.write_text(SPEC)

    def builds(*texts: str) -> None:
        built = "---\n".join(texts)
        program(overlay / "bin", "kustomize", f"print({built!r})")

    builds(SPEC.replace("x:1", "x:2"), MANIFEST, SPEC.replace("name: tiny", "name: other"))
    monkeypatch.setenv("PATH", str(overlay / "bin"))
    result = run("diff", "--local", str(base), changed, "--offline")
    assert result.code == 1, str(result)
    assert "image (head, group cpu)  example.com/x:1 → example.com/x:2\n" in result.out
    assert "+ Service a" in result.out
    assert "+ RayService other" in result.out
    builds(SPEC.replace("image:", "images:"))
    assert (
        f"{changed}, built:4: spec.engine.images: unknown field"
        in run("diff", "--local", str(base), changed, "--offline").err
    )


def test_files_that_a_kustomization_does_not_list_are_no_objects(run: Run, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new" / "service"
    old.write_text(MANIFEST)
    new.mkdir(parents=True)
    (new / "kustomization.yaml").write_text("resources: [listed.yaml]\n")
    (new / "listed.yaml").write_text(MANIFEST)
    (new / "draft.yaml").write_text(MANIFEST.replace("name: a", "name: b"))
    (new / "values.yaml").write_text("replicas: 2\n")
    for named in (new, new / "kustomization.yaml", new.parent):
        result = run("diff", "--local", str(old), str(named))
        assert result.code == 0, str(result)


def test_flux_has_kustomizations_that_are_objects(run: Run, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    for file, path in ((old, "./a"), (new, "./b")):
        file.write_text(
            "{apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, metadata: {name: llm}, "
            f"spec: {{path: {path}}}}}\n"
        )
    result = run("diff", "--local", str(old), str(new))
    assert result.code == 1
    assert "./a → ./b" in result.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "not valid YAML"),
        ("- 1\n", "not a manifest, but a list"),
        ("kind: Service\n", "apiVersion, kind or metadata.name is missing"),
        ("\n---\n".join(["{apiVersion: v1, kind: Service, metadata: {name: a}}"] * 2), "Service a is in"),
    ],
)  # fmt: skip
def test_files_that_are_no_manifests(run: Run, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    result = run("diff", "--local", str(file), str(file))
    assert result.code == 2
    assert str(file) in result.err
    assert words in result.err


def test_objects_of_templates_of_ones_own_are_compared(run: Run, deployed: None, tmp_path: Path) -> None:
    own = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ (name ~ '-own') | yaml }}}\n"
    (tmp_path / "own.yaml.j2").write_text(own, encoding="utf-8")
    result = run("diff", *TINY, *IMAGE, "--template-dir", str(tmp_path))
    assert result.code == 1
    assert "+ ConfigMap llm/tiny-own" in result.out
    assert "RayService" not in result.out


def test_a_serve_configuration_is_compared(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "text.yaml"
    file.write_text("applications: [{name: text, import_path: 'text:app'}]\n", encoding="utf-8")
    result = run("diff", "--serve-config", str(file), "--image", "rayproject/ray:2.60.0")
    assert result.code == 1
    assert "+ RayService llm/text" in result.out
