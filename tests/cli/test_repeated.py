"""Flags that take one value and are given twice, and spec files from standard input."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from rayllm_ctl.cli import app

SPEC = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: qwen}
spec: {model: {id: Qwen/Qwen3-8B}, accelerator: {gpu: L4}}
"""
JOB = """\
apiVersion: rayllm.io/v1alpha1
kind: BatchJob
metadata: {name: sums}
spec:
  model: {id: Qwen/Qwen3-8B}
  accelerator: {gpu: L4}
  input: {paths: [s3://bucket/in.jsonl]}
  output: {path: s3://bucket/out}
  prompt: {template: "{{ text }}"}
"""


@pytest.mark.parametrize(
    ("arguments", "flag", "hint"),
    [
        (("deploy", "-f", "a.yaml", "-f", "b.yaml"), "--file", "rayllm-ctl apply -f FILE -f FILE"),
        (("plan", "-f", "a.yaml", "--file=b.yaml"), "--file", "rayllm-ctl apply -f FILE -f FILE"),
        (("diff", "-f", "a.yaml", "-f", "b.yaml"), "--file", "rayllm-ctl apply -f FILE -f FILE"),
        (("init", "--model", "a", "--model", "b"), "--model", "rayllm-ctl init --help"),
        (("plan", "--model", "a", "--offline", "--model=b"), "--model", "rayllm-ctl plan --help"),
        (("deploy", "--model", "a", "--tp", "2", "--tp", "4"), "--tp", "rayllm-ctl deploy --help"),
        (("delete", "a", "--wait", "--no-wait"), "--wait", "rayllm-ctl delete --help"),
        (("status", "-n", "a", "-n", "b"), "--namespace", "rayllm-ctl status --help"),
        (("bench", "run", "--url", "a", "--url", "b"), "--url", "rayllm-ctl bench run --help"),
        (("batch", "submit", "--prompt", "a", "--prompt", "b"), "--prompt", "rayllm-ctl batch submit --help"),
        (("--color", "never", "--color", "always", "gpus"), "--color", "rayllm-ctl --help"),
        (("--color", "never", "gpus", "--color", "always"), "--color", "rayllm-ctl gpus --help"),
        (("batch", "--color=never", "list", "--color=always"), "--color", "rayllm-ctl batch list --help"),
    ],
)
def test_a_flag_with_one_value_is_given_once(
    arguments: tuple[str, ...], flag: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{flag} is given more than once, and takes one value" in err
    assert f"hint: {hint}" in err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("plan", "a/b", "--env", "A=1", "--env", "A=2"), "--env A"),
        (("deploy", "a/b", "--engine-arg", "x=1", "--engine-arg", "x=true"), "--engine-arg x"),
        (("render", "a/b", "--node-selector", "p=a", "--node-selector", "q=b", "--node-selector", "p=b"),
         "--node-selector p"),
        (("batch", "submit", "a/b", "--sampling-arg", "x=1", "--sampling-arg", "x=2"), "--sampling-arg x"),
        (("bench", "--url", "http://127.0.0.1:9", "--set", "top_p=1", "--set", "top_p=0"), "--set top_p"),
    ],
)  # fmt: skip
def test_a_key_has_one_value(arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"✗ {named} is given twice, with different values\n\nhint: ")


def test_two_volumes_have_two_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["plan", "a/b", "--offline", "--volume", "pvc:a:/m", "--volume", "pvc:b:/m"]) == 2
    assert '--volume: duplicate mount path "/m"' in capsys.readouterr().err


def test_a_key_may_have_the_same_value_twice(capsys: pytest.CaptureFixture[str]) -> None:
    twice = ("--node-selector", "p=a", "--node-selector", "p=a", "--env", "A=1", "--env", "A=1")
    assert app.run(["plan", "Qwen/Qwen3-8B", "--gpu", "L4", "--offline", *twice, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "fits"


def test_flags_with_several_values_and_switches_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--env", "A=1", "--env", "B=2", "--offline", "--offline", "--gpu", "L4")
    assert app.run(["render", "--model", "Qwen/Qwen3-8B", *flags]) == 0
    assert "name: B" in capsys.readouterr().out


def from_standard_input(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        (("render", "-f", "-", "--offline"), SPEC, "kind: RayService"),
        (("plan", "-f", "-", "--offline", "-o", "json"), SPEC, '"verdict": "fits"'),
        (("deploy", "-f", "-", "--offline", "--dry-run", "client", "-o", "name"), SPEC, "rayservice.ray.io/qwen"),
        (("init", "-f", "-", "--offline"), SPEC, "kind: LLMService"),
        (("render", "-f", "-", "--offline"), JOB, "kind: RayJob"),
        (("batch", "submit", "-f", "-", "--offline", "--dry-run", "client", "-o", "name"), JOB, "rayjob.ray.io/sums"),
    ],
)
def test_a_spec_file_from_standard_input(
    command: tuple[str, ...], text: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from_standard_input(monkeypatch, text)
    code = app.run(command)
    out, err = capsys.readouterr()
    assert (code, words in out) == (0, True), err


def test_problems_of_standard_input_have_their_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from_standard_input(monkeypatch, SPEC.replace("model:", "modle:"))
    assert app.run(["render", "-f", "-", "--offline"]) == 2
    err = capsys.readouterr().err
    assert "standard input:4: spec.modle: unknown field" in err
    assert "did you mean mode or model?" in err


def test_version_without_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    assert app.run(["version"]) == 2
    out, err = capsys.readouterr()
    assert out.startswith("rayllm-ctl  ")
    assert "the versions of the cluster and of KubeRay are unknown: kubeconfig" in err
    assert "rayllm-ctl version --client" in err
    assert app.run(["version", "-o", "json"]) == 2
    assert json.loads(capsys.readouterr().out)["kubernetes"] is None
