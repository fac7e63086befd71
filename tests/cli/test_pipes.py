"""Files that can be read only once: process substitution (`-f <(...)`), named pipes and standard input."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rayllm_ctl.cli import app

SERVICE = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: qwen}
spec: {model: {id: Qwen/Qwen3-8B}, accelerator: {gpu: L4}}
"""
SEVERAL = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: several}
spec:
  models:
  - {id: Qwen/Qwen3-8B, accelerator: {gpu: L4}, load: {calibration: CALIBRATION}}
  - {id: Qwen/Qwen3-4B, accelerator: {gpu: L4}, load: {calibration: CALIBRATION}}
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
COMMANDS = [
    (("plan", "-o", "json"), SERVICE, '"verdict": "fits"'),
    (("plan", "--debug", "-o", "json"), SERVICE, '"verdict": "fits"'),
    (("render",), SERVICE, "kind: RayService"),
    (("init",), SERVICE, "kind: LLMService"),
    (("deploy", "--dry-run", "client"), SERVICE, "kind: RayService"),
    (("plan", "-o", "json"), JOB, '"verdict": "fits"'),
    (("render",), JOB, "kind: RayJob"),
    (("batch", "submit", "--dry-run", "client"), JOB, "kind: RayJob"),
]

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}

Pipe = Callable[[str], str]


@pytest.fixture
def piped() -> Iterator[Pipe]:
    """The name of a pipe that contains a text, as of the shell's `<(...)`."""
    descriptors = []

    def pipe(text: str) -> str:
        reading, writing = os.pipe()
        descriptors.append(reading)
        with os.fdopen(writing, "w") as file:
            file.write(text)
        return f"/dev/fd/{reading}"

    yield pipe
    for descriptor in descriptors:
        os.close(descriptor)


def named_pipe(folder: Path, text: str) -> str:
    """A named pipe to which a thread writes `text` once."""
    path = folder / "spec.yaml"
    os.mkfifo(path)
    threading.Thread(target=path.write_text, args=(text,), daemon=True).start()
    return str(path)


@pytest.mark.parametrize("setting", [None, ("RAYLLM_GPU", "L4"), ("RAYLLM_NAMESPACE", "llm")])
@pytest.mark.parametrize("kind", ["substitution", "named", "standard input"])
@pytest.mark.parametrize(("command", "text", "words"), COMMANDS)
def test_a_spec_file_is_read_once(
    command: tuple[str, ...],
    text: str,
    words: str,
    kind: str,
    setting: tuple[str, str] | None,
    piped: Pipe,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if setting is not None:
        monkeypatch.setenv(*setting)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    path = "-" if kind == "standard input" else piped(text) if kind == "substitution" else named_pipe(tmp_path, text)
    code = app.run([*command, "--offline", "-f", path])
    out, err = capsys.readouterr()
    assert (code, words in out) == (0, True), err


def test_other_files_are_read_once(piped: Pipe, capsys: pytest.CaptureFixture[str]) -> None:
    """Several models have one list of prices and one calibration; `init` plans the file that it writes again."""
    prices = json.dumps({"prices": {"L4": 123.0}})
    several = SEVERAL.replace("CALIBRATION", piped("calibrations: []"))
    assert app.run(["plan", "-f", piped(several), "--offline", "--prices", piped(prices)]) == 0
    assert "123.00 USD/h" in capsys.readouterr().out
    facts = ("--model-config", piped(json.dumps(CONFIG)), "--prices", piped(prices))
    assert app.run(["init", "org/model", "--gpu", "L4", "--offline", *facts]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("kind", ["substitution", "standard input"])
def test_a_model_is_not_named_after_a_pipe(
    kind: str, piped: Pipe, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(CONFIG)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    path = "-" if kind == "standard input" else piped(text)
    code = app.run(["plan", "--model-config", path, "--gpu", "L4", "--offline", "-o", "json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    plan = json.loads(out)
    assert plan["model"] == "model"
    assert plan["factsSource"] == ("standard input" if path == "-" else path)


def test_a_serve_configuration_from_a_pipe_needs_a_name(
    piped: Pipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = "applications:\n- {name: a, route_prefix: /, import_path: 'm:app'}\n"
    assert app.run(["render", "--serve-config", piped(config)]) == 2
    assert "a name is required for a file from a pipe" in capsys.readouterr().err
    assert app.run(["render", "--serve-config", named_pipe(tmp_path, config), "--name", "echo"]) == 0
    assert "name: echo" in capsys.readouterr().out


def test_paths_in_a_pipe_are_seen_from_the_working_directory(
    piped: Pipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "measured.yaml").write_text("calibrations: []\n")
    several = SEVERAL.replace("CALIBRATION", "measured.yaml")
    assert app.run(["plan", "-f", piped(several), "--offline"]) == 0, capsys.readouterr().err


def test_standard_input_has_the_same_text_under_its_other_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        code = app.run(["diff", "--local", "-", f"/dev/fd/{reading}"])
    out, err = capsys.readouterr()
    assert (code, "deleted" in out) == (0, False), err
