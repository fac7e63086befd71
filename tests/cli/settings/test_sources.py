"""A flag, else its variable, else the configuration file, else the default; and errors that name what was typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cli import app
from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI

MODEL = "Qwen/Qwen3-8B"
PLAN = ("plan", "--model", MODEL, "--offline", "-o", "json")
SPEC = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {{name: qwen{namespace}}}
spec:
  model: {{id: Qwen/Qwen3-8B}}
{rest}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text("")
    monkeypatch.setenv("RAYLLM_CONFIG", str(path))
    return path


def spec(tmp_path: Path, rest: str = "", namespace: str = "") -> str:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC.format(rest=rest, namespace=namespace and f", namespace: {namespace}"))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = app.run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = run(capsys, *PLAN, *arguments)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_flag_precedes_a_variable_and_that_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(capsys)["gpu"]["name"] == "RTX-A6000"
    config.write_text("gpu: A10G\ntp: 2\n")
    found = planned(capsys)
    assert (found["gpu"]["name"], found["parallelism"]["tensor"]) == ("A10G", 2)
    monkeypatch.setenv("RAYLLM_GPU", "H100-80GB")
    found = planned(capsys)
    assert (found["gpu"]["name"], found["parallelism"]["tensor"]) == ("H100-80GB", 2)
    assert planned(capsys, "--gpu", "L40S")["gpu"]["name"] == "L40S"
    monkeypatch.setenv("RAYLLM_GPU", "")
    assert planned(capsys)["gpu"]["name"] == "A10G"


@pytest.mark.parametrize("source", ["variable", "file"])
def test_what_an_error_names_is_where_the_value_was_typed(
    source: str, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value, message in (
        ("tp", "abc", '"abc" is not a whole number'),
        ("tp", "0", "must be at least 1, not 0"),
        ("offline", "perhaps", '"perhaps" is not true or false'),
        ("ttft", "5", '"5" is not a valid duration'),
        ("hf-token-secret", "hf_abcdef", "expected NAME/KEY"),
    ):
        variable = f"RAYLLM_{name.upper().replace('-', '_')}"
        if source == "variable":
            monkeypatch.setenv(variable, value)
        else:
            config.write_text(f"# of the team\n{name}: {value}\n")
        code, out, err = run(capsys, "plan", "--model", MODEL)
        where = variable if source == "variable" else f"{config}:2: {name}"
        assert (code, out) == (2, "")
        assert err.startswith(f"✗ {where}: {message}")
        assert "hf_abcdef" not in err
        monkeypatch.delenv(variable, raising=False)


def test_a_file_with_two_documents(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text("namespace: a\n---\nnamespace: b\n")
    assert run(capsys, "config", "view") == (
        2,
        "",
        f"✗ {config}:2: a second document starts here, and the file may contain one\n\n"
        "hint: move what follows --- to a file of its own\n",
    )


def test_an_error_of_a_later_step_says_where_the_value_is_from(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAYLLM_GPU", "H1OO")
    assert "      --gpu H1OO is from RAYLLM_GPU\n" in run(capsys, *PLAN)[2]
    monkeypatch.delenv("RAYLLM_GPU")
    config.write_text("gpu: H1OO\nkubeconfig: missing\n")
    assert f"      --gpu H1OO is from {config}:1\n" in run(capsys, *PLAN)[2]
    err = run(capsys, "status", "qwen")[2]
    assert f"{config.parent / 'missing'} does not exist" in err
    assert f"(from {config}:2: kubeconfig)" in err
    assert "is from" not in run(capsys, *PLAN, "--gpu", "H1OO")[2]


def test_all_unknown_names_of_the_file_are_named_with_near_ones(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("gpu: L4\nhfTokenSecret: hf/token\nnamespce: llm\nmodel: x\n")
    code, out, err = run(capsys, *PLAN)
    assert (code, out) == (2, "")
    assert [line for line in err.splitlines() if "unknown setting" in line] == [
        f'✗ {config}:2: unknown setting "hfTokenSecret"',
        f'{config}:3: unknown setting "namespce"',
        f'{config}:4: unknown setting "model"',
    ]
    assert "did you mean hf-token-secret?" in err
    assert "did you mean namespace?" in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu: [L4, L40S]", "1: gpu: expected text, not a list"),
        ("gpu:\n", "1: gpu: a value is missing"),
        ("vllm-version: 0.10", "1: vllm-version: 0.1 is not text"),
        ("- gpu\n", "1: expected settings"),
        ("gpu: L4\ngpu: L40S\n", '2: duplicate key "gpu"'),
        ("gpu: {a: b}", "1: gpu: expected text, not a mapping"),
        ("toleration: [{key: a}]", "1: toleration: expected a list of"),
        ("gpu: 'L4\n", "2: not valid YAML"),
        ('prices: "a\\0b"\n', "1: prices: no value contains a NUL character"),
        ('gpu: "L4\\0"\n', "1: gpu: no value contains a NUL character"),
    ],
)
def test_what_the_file_cannot_say_is_reported_with_its_line(
    text: str, message: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(text)
    code, out, err = run(capsys, *PLAN)
    assert (code, out) == (2, "")
    assert err.startswith(f"✗ {config}:{message}")


def test_a_file_that_is_named_must_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAYLLM_CONFIG", str(tmp_path / "none.yaml"))
    code, _, err = run(capsys, *PLAN)
    assert (code, "none.yaml: no such file (from RAYLLM_CONFIG)" in err) == (2, True)
    monkeypatch.setenv("RAYLLM_CONFIG", str(tmp_path))
    assert "Is a directory" in run(capsys, *PLAN)[2]
    assert run(capsys, "plan", "--help")[0] == 0


def test_lists_are_words_in_a_variable_and_lists_in_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("toleration: [a=b:NoSchedule, c]\nnode-selector: {team: search, size: 8}\n")
    deploy = ("deploy", "--model", MODEL, "--gpu", "L4", "--dry-run=client", "--offline", "-o", "json")
    code, out, err = run(capsys, *deploy)
    assert code == 0, err
    group = next(
        item["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["template"]["spec"]
        for item in json.loads(out)["items"]
        if item["kind"] == "RayService"
    )
    assert group["nodeSelector"] == {"team": "search", "size": "8"}
    assert {one["key"] for one in group["tolerations"]} == {"a", "c", "nvidia.com/gpu", "sku"}
    monkeypatch.setenv("RAYLLM_NODE_SELECTOR", "pool=a zone=b")
    assert "pool: a" in run(capsys, *deploy[:-2])[1]
    assert "team: search" not in run(capsys, *deploy[:-2])[1]


def test_a_spec_file_precedes_variables_and_the_configuration_file(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("gpu: L40S\nmin-replicas: 2\nmax-replicas: 3\nnamespace: team\ntp: 2\n")
    monkeypatch.setenv("RAYLLM_GPU", "H100-80GB")
    deploy = ("deploy", "--dry-run=client", "--offline", "-f")
    bare = run(capsys, *deploy, spec(tmp_path))[1]
    assert "namespace: team" in bare
    assert "nvidia-h100-80gb" in bare
    own = spec(tmp_path, "  accelerator: {gpu: L4}\n  replicas: {min: 1, max: 1}", "mine")
    code, out, err = run(capsys, *deploy, own)
    assert code == 0, err
    assert ("nvidia-l4" in out, "h100" in out, "namespace: mine" in out, "maxReplicas: 3" in out) == (
        True, False, True, False,
    )  # fmt: skip
    assert "tensor_parallel_size: 2" in out
    assert "namespace: there" in run(capsys, *deploy, own, "-n", "there")[1]
    cpu = run(capsys, "plan", "--offline", "--model", MODEL, "--accelerator", "cpu", "--tp", "1")
    assert cpu[0] == 0, cpu[2]


def test_a_service_of_several_models_takes_what_they_share(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("gpu: L40S\nimage: registry.example/llm:1\nhf-token-secret: hf/token\nreplicas: 2\n")
    path = tmp_path / "several.yaml"
    models = "{id: Qwen/Qwen3-8B, accelerator: {gpu: L4}}, {id: Qwen/Qwen3-4B, accelerator: {gpu: L4}}"
    path.write_text(SPEC.format(namespace="", rest="").replace("model: {id: Qwen/Qwen3-8B}", f"models: [{models}]"))
    code, out, err = run(capsys, "deploy", "--dry-run=client", "--offline", "-f", str(path))
    assert code == 0, err
    assert ("registry.example/llm:1" in out, "l40s" in out) == (True, False)


def test_a_batch_job_on_a_cluster_of_its_own_has_no_pods_of_the_team(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("gpu: L4\nimage: registry.example/llm:1\nhf-token-secret: hf/token\nconcurrency: 200\n")
    submit = (
        "batch", "submit", "--dry-run=client", "--offline", "--model", MODEL, "--input", "s3://a/b.jsonl",
        "--output-path", "s3://a/o", "--prompt", "{{ text }}",
    )  # fmt: skip
    code, out, err = run(capsys, *submit)
    assert (code, "registry.example/llm:1" in out) == (0, True), err
    code, out, err = run(capsys, *submit, "--cluster", "pool")
    assert (code, "registry.example/llm:1" in out) == (0, False), err


def test_other_flags_that_exclude_a_setting_take_precedence(
    config: Path, api: FakeAPI, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("namespace: team\nkuberay-version: '1.5'\noffline: true\n")
    monkeypatch.setenv("RAYLLM_CONFIG", str(config))
    api.namespaces.add("team")
    assert run("status", "-A").code == 0
    assert run("deploy", "--model", MODEL, "--gpu", "L4", "--no-wait").code == 0
    assert "qwen3-8b" in run("status", "-o", "json").out
    assert "~ RayService team/qwen3-8b" in run("diff", "--model", MODEL, "--gpu", "L4", "--tp", "4").out
    assert api.stored("RayService", "qwen3-8b", "team")["kind"] == "RayService"


def test_variables_without_a_meaning_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("RAYLLM_API_KEY", "RAYLLM_CONFIG", "RAYLLM_DEBUG", "RAYLLM_VLLM_ENGINE_CLS", "RAYLLM_ROUTER_X"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("RAYLLM_GPUS", "L4")
    monkeypatch.setenv("RAYLLM_DEPLOY_IMAGE", "x")
    monkeypatch.setenv("RAYLLM_HF_TOKEN", "x")
    monkeypatch.setenv("RAYLLM_ZZZ", "x")
    code, _, err = run(capsys, *PLAN)
    assert code == 0
    assert err.splitlines() == [
        "RAYLLM_DEPLOY_IMAGE is ignored: it is not a setting; did you mean RAYLLM_IMAGE?",
        "RAYLLM_GPUS is ignored: it is not a setting; did you mean RAYLLM_GPU?",
        "RAYLLM_HF_TOKEN is ignored: it is not a setting; did you mean RAYLLM_HF_TOKEN_SECRET?",
        "RAYLLM_ZZZ is ignored: it is not a setting (rayllm-ctl config view lists all)",
    ]
    assert run(capsys, "plan", "--help")[2] == ""


def test_a_variable_of_one_command_is_an_error_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAYLLM_PLAN_TP", "2")
    code, out, err = run(capsys, *PLAN)
    assert (code, out) == (2, "")
    assert err.startswith("✗ RAYLLM_PLAN_TP: there are no variables of single commands; --tp can be set by RAYLLM_TP\n")
    assert 'export RAYLLM_TP="$RAYLLM_PLAN_TP"' in err
    monkeypatch.delenv("RAYLLM_PLAN_TP")
    monkeypatch.setenv("RAYLLM_BATCH_SUBMIT_TIMEOUT", "2")
    assert "RAYLLM_BATCH_SUBMIT_TIMEOUT: there are" in run(capsys, "batch", "submit")[2]


def test_debug_shows_where_each_value_is_from(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("gpu: L4\n")
    monkeypatch.setenv("RAYLLM_TP", "2")
    deploy = ("deploy", "--model", MODEL, "--dry-run=client", "--offline", "--env", "GREETING=hello")
    code, _, err = run(capsys, "--debug", *deploy)
    assert code == 0
    lines = err.splitlines()
    assert f"--gpu L4    # {config}:1" in lines
    assert "--tp 2    # RAYLLM_TP" in lines
    assert f"--model {MODEL}    # command line" in lines
    assert "--env GREETING=***    # command line" in lines
    assert "# command line" not in run(capsys, *deploy)[2]


def test_debug_shows_no_value_that_a_spec_file_overrides(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("gpu: L4\nmax-model-len: 4096\nnamespace: search\nmin-replicas: 2\n")
    monkeypatch.setenv("RAYLLM_TP", "2")
    file = tmp_path / "qwen.yaml"
    file.write_text(
        "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata: {name: qwen, namespace: llm}\n"
        f"spec: {{model: {{id: {MODEL}}}, accelerator: {{gpu: H100-80GB}}, parallelism: {{tensor: 1}}}}\n"
    )
    deploy = ("--debug", "deploy", "-f", str(file), "--dry-run=client", "--offline", "--replicas", "1")
    code, _, err = run(capsys, *deploy)
    assert code == 0
    assert f"--max-model-len 4096    # {config}:2" in err
    for name in ("gpu", "namespace", "tp", "min-replicas"):
        assert f"--{name} " not in err
    plan = run(capsys, "--debug", "plan", "--model", MODEL, "--accelerator", "cpu", "--offline")[2]
    assert "--gpu " not in plan
    broken = run(capsys, "--debug", "plan", "-f", str(tmp_path / "none.yaml"))
    assert (broken[0], "none.yaml: no such file" in broken[2], "--gpu L4" in broken[2]) == (2, True, True)
