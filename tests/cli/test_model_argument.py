"""The model as an argument of a command, and as the address of its page on the Hub."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rayllm_ctl.cli import app

FLAGS = ("--offline", "--gpu", "L4")
BATCH = ("--input", "s3://bucket/in.jsonl", "--output-path", "s3://bucket/out", "--prompt", "{{ text }}")


@pytest.mark.parametrize(
    "command",
    [
        ("plan", "-o", "json"),
        ("render",),
        ("init",),
        ("deploy", "--dry-run=client"),
        ("batch", "submit", "--dry-run=client", *BATCH),
    ],
    ids=lambda words: words[0],
)
def test_the_argument_is_the_flag(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([*command, "--model", "Qwen/Qwen3-8B", *FLAGS]) == 0
    expected = capsys.readouterr().out
    assert "Qwen/Qwen3-8B" in expected
    assert app.run([*command, "Qwen/Qwen3-8B", *FLAGS]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    "address",
    [
        "https://huggingface.co/Qwen/Qwen3-8B",
        "https://huggingface.co/Qwen/Qwen3-8B/",
        "https://huggingface.co/Qwen/Qwen3-8B?library=vllm#quickstart",
        "https://huggingface.co/Qwen/Qwen3-8B/tree/main",
        "https://huggingface.co/Qwen/Qwen3-8B/blob/main/config.json",
        "https://huggingface.co/Qwen/Qwen3-8B/discussions/12",
        "huggingface.co/Qwen/Qwen3-8B",
        "https://hf.co/Qwen/Qwen3-8B",
        "hf.co/Qwen/Qwen3-8B",
    ],
)
@pytest.mark.parametrize("flag", [(), ("--model",)], ids=["argument", "flag"])
def test_the_address_of_a_model(address: str, flag: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["plan", *flag, address, *FLAGS, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ("plan", "Qwen/Qwen3-8B", "--model", "Qwen/Qwen3-4B"),
            "✗ the model is given twice: Qwen/Qwen3-8B and --model Qwen/Qwen3-4B\n\n"
            "hint: remove --model Qwen/Qwen3-4B\n",
        ),
        (
            ("plan", "Qwen/Qwen3-8B", "Qwen/Qwen3-4B"),
            "✗ unexpected argument: Qwen/Qwen3-4B\n\nhint: rayllm-ctl plan --help\n",
        ),
        (("render", "qwen.yaml"), '✗ "qwen.yaml" is a file, not the name of a model\n\nhint: -f qwen.yaml\n'),
        (
            ("plan", "https://huggingface.co/Qwen/Qwen3-8B/tree/v2"),
            '✗ "https://huggingface.co/Qwen/Qwen3-8B/tree/v2" is the address of revision v2\n\n'
            "hint: Qwen/Qwen3-8B --revision v2\n",
        ),
        (
            ("plan", "https://huggingface.co/datasets/a/b"),
            '✗ invalid value for MODEL: "https://huggingface.co/datasets/a/b" is not the address of a model, such as '
            "https://huggingface.co/Qwen/Qwen3-32B\n\nhint: rayllm-ctl plan --help\n",
        ),
        (
            ("plan", "Qwen/Qwen3 8B"),
            '✗ MODEL: "Qwen/Qwen3 8B" is not a valid model name, such as qwen3 or Qwen/Qwen3-32B\n\n'
            "hint: set a directory in spec.model.path (--model-path); the id is then any name\n",
        ),
        (
            ("plan",),
            "✗ a model is required\n\nhint: rayllm-ctl plan Qwen/Qwen3-32B\n      rayllm-ctl plan -f qwen.yaml\n",
        ),
        (
            ("deploy", "X", "--serve-config", "config.yaml"),
            "✗ --serve-config cannot be combined with MODEL\n",
        ),
    ],
)
def test_errors(arguments: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(arguments) == 2
    assert capsys.readouterr().err == error


def test_models_takes_the_address_of_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["models", "https://huggingface.co/Qwen/Qwen3-8B"]) == 0
    assert capsys.readouterr().out.startswith("Qwen/Qwen3-8B ")


@pytest.mark.parametrize("command", ["plan", "render", "models"])
def test_an_unknown_model_has_one_exit_code(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([command, "foo/bar", *(() if command == "models" else ("--offline",))]) == 1
    assert "\nhint: rayllm-ctl models" in capsys.readouterr().err


SERVICE = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: chat}
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
    ("text", "flags", "note"),
    [
        (SERVICE, ("Qwen/Qwen3-4B",), "keeps its name, chat, with Qwen/Qwen3-4B in place of Qwen/Qwen3-8B\n"),
        (SERVICE, ("--model", "Qwen/Qwen3-4B"), "note: the service keeps its name, chat, with "),
        (JOB, ("Qwen/Qwen3-4B",), "note: the batch job keeps its name, sums, with "),
        (SERVICE, ("Qwen/Qwen3-8B",), ""),
        (SERVICE, ("Qwen/Qwen3-4B", "--name", "small"), ""),
        (SERVICE, (), ""),
    ],
)
def test_another_model_than_that_of_the_file_keeps_the_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, flags: tuple[str, ...], note: str
) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(text)
    assert app.run(["render", "-f", str(file), "--offline", *flags]) == 0
    err = capsys.readouterr().err
    assert note in err
    assert ("keeps its name" in err) is bool(note)
