"""Flags: where they may stand, in which forms, and what an error about one says."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pytest

from rayllm_ctl.cli import app
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.parsing.unknown_flags import near_flags
from rayllm_ctl.cli.session import live_view
from tests.cli.conftest import Deploy, Run

MODEL = ("plan", "Qwen/Qwen3-8B", "--offline", "--gpu", "L4")


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert app.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize(
    "arguments",
    [
        ("gpus", "h100", "-o=json"),
        ("gpus", "h100", "-ojson"),
        ("gpus", "h100", "-o", "json"),
        ("gpus", "h100", "--output=json"),
        ("gpus", "-o=json", "h100"),
        ("--color=never", "gpus", "-o=json", "--debug", "h100"),
    ],
)
def test_forms_of_a_flag(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(arguments) == 0
    assert json.loads(capsys.readouterr().out)["name"].startswith("H100")


def test_a_namespace_as_kubectl_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["render", "-n=llm", *MODEL[1:]]) == 0
    assert "\n  namespace: llm\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    "before", [("-n", "other"), ("-n=other",), ("-nother",), ("--namespace=other",), ("-v", "--namespace", "other")]
)
def test_flags_of_the_cluster_may_stand_before_the_command(before: tuple[str, ...], run: Run, deploy: Deploy) -> None:
    deploy("--model", "Qwen/Qwen3-0.6B", "--name", "tiny")
    assert run("status", "-o=name").out == "rayservice.ray.io/tiny\n"
    assert run(*before, "status", "-o=name").out == ""


@pytest.mark.parametrize(
    "arguments",
    [("-n", "a", "batch", "list"), ("batch", "-n", "a", "list"), ("-n=a", "bench", "x"), ("bench", "-na", "x")],
)
def test_flags_of_the_cluster_before_a_group(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert "kubeconfig /absent does not exist" in error_of(capsys, "--kubeconfig", "/absent", *arguments)


def test_flags_of_the_cluster_before_a_command_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of(capsys, "-n", "a", "gpus") == "✗ unknown flag: -n\n\nhint: rayllm-ctl gpus --help\n"


def test_short_flags_in_one_word(run: Run, deploy: Deploy) -> None:
    deploy("--model", "Qwen/Qwen3-0.6B", "--name", "tiny")
    assert run("status", "-Ao=name").out == run("status", "-A", "-o", "name").out != ""


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("deploy", "X", "--dry-run"), "--dry-run requires a value (none, client or server)", "deploy"),
        (
            ("deploy", "X", "--dry-run", "-o", "name"),
            "--dry-run requires a value (none, client or server), and is followed by the flag -o",
            "deploy",
        ),
        (("plan", "X", "--gpu", "--tp", "4"), "--gpu requires a value, and is followed by the flag --tp", "plan"),
        (("diff", "--local", "a"), "--local requires 2 values", "diff"),
        (("check", "--security"), "--security requires a value", "check"),
        (("bench", "--url"), "--url requires a value", "bench run"),
        (("--color",), "--color requires a value (auto, always or never)", ""),
    ],
)
def test_a_value_is_missing(
    arguments: tuple[str, ...], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"rayllm-ctl {hint}".rstrip()
    assert error_of(capsys, *arguments) == f"✗ {message}\n\nhint: {command} --help\n"


@pytest.mark.parametrize(
    ("arguments", "message", "command"),
    [
        (("plan", "X", "--offline=true"), "--offline takes no value: write --offline, or leave it out", "plan"),
        (("version", "--client=false"), "--client takes no value: write --client, or leave it out", "version"),
        (("status", "-A=true"), "-A takes no value: write -A, or leave it out", "status"),
        (
            ("batch", "list", "--all-namespaces=false"),
            "--all-namespaces takes no value: write --all-namespaces, or leave it out",
            "batch list",
        ),
        (
            ("bench", "--stream=false"),
            "--stream takes no value: write --stream or --no-stream, or leave it out",
            "bench run",
        ),
    ],
)
def test_a_flag_without_values_has_one(
    arguments: tuple[str, ...], message: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert error_of(capsys, *arguments) == f"✗ {message}\n\nhint: rayllm-ctl {command} --help\n"


@pytest.mark.parametrize(
    ("arguments", "name", "command"),
    [
        (("status", "--kubeconfig", ""), "--kubeconfig", "status"),
        (("status", "--context="), "--context", "status"),
        (("status", "-n", ""), "--namespace", "status"),
        (("status", ""), "NAME", "status"),
        (("plan", "-f", ""), "--file", "plan"),
        (("plan", "X", "--plot", ""), "--plot", "plan"),
        (("plan", ""), "MODEL", "plan"),
        (("render", "X", "--output-dir", ""), "--output-dir", "render"),
        (("render", "-f", "a", "-f", ""), "--file", "render"),
        (("gpus", ""), "NAME", "gpus"),
        (("explain", ""), "FIELD", "explain"),
        (("bench", "--url", "http://h/v1", "--model", ""), "--model", "bench run"),
        (("diff", "--local", "", "b"), "--local", "diff"),
        (("--color", "", "gpus"), "--color", ""),
    ],
)
def test_a_value_is_empty(
    arguments: tuple[str, ...], name: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = f"rayllm-ctl {command}".rstrip()
    assert error_of(capsys, *arguments) == f"✗ {name}: must not be empty\n\nhint: {where} --help\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bench", "x", "--requests", "0"), "invalid value for --requests: must be at least 1, not 0"),
        (("bench", "x", "--requests", "a"), 'invalid value for --requests: "a" is not a whole number'),
        (("plan", "X", "--tp", "1.5"), 'invalid value for --tp: "1.5" is not a whole number'),
        (("plan", "X", "--rate", "a"), 'invalid value for --rate: "a" is not a number'),
        (
            ("bench", "x", "--api-key-file", "/nonexistent"),
            'invalid value for --api-key-file: "/nonexistent" does not exist',
        ),
        (("port-forward", "x", "--port", "70000"), "invalid value for --port: must be 0 to 65535, not 70000"),
        (("status", "x", "y", "z"), "unexpected argument: y z"),
    ],
)
def test_messages_about_values(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of(capsys, *arguments).startswith(f"✗ {message}\n")


@pytest.mark.parametrize(
    ("flag", "near"),
    [
        ("--nmespace", ["--namespace"]),
        ("--min", ["--min-replicas"]),
        ("--max", ["--max-replicas"]),
        ("--max_model_len", ["--max-model-len"]),
        ("--model-len", ["--max-model-len"]),
        ("--gpus", ["--gpu"]),
        ("--port", []),
        ("--region", []),
        ("--set", []),
        ("--x", []),
    ],
)
def test_near_flags(flag: str, near: list[str]) -> None:
    command = app.group.get_command(click.Context(app.group), "deploy")
    assert command is not None
    assert near_flags(flag, [name for option in command.params for name in option.opts if name[:2] == "--"]) == near


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("--tensor-parallel-size 4", "--tp 4    # vLLM's --tensor-parallel-size"),
        ("--tensor-parallel-size=4", "--tp 4    # vLLM's --tensor-parallel-size"),
        ("--tensor_parallel_size 4", "--tp 4    # vLLM's --tensor_parallel_size"),
        ("-tp 4", "--tp 4    # vLLM's -tp"),
        ("-tp=4", "--tp 4    # vLLM's -tp"),
        ("--pipeline-parallel-size 2", "--pp 2    # vLLM's --pipeline-parallel-size"),
        ("--hf-token hf_secret", "--hf-token-secret NAME/KEY    # vLLM's --hf-token"),
        ("--trust-remote-code", "--engine-arg trust_remote_code=true    # vLLM's --trust-remote-code"),
        ("--trust-remote-code --offline", "--engine-arg trust_remote_code=true    # vLLM's --trust-remote-code"),
        (
            "--no-enable-prefix-caching",
            "--engine-arg enable_prefix_caching=false    # vLLM's --no-enable-prefix-caching",
        ),
        ("--block-size 32", "--engine-arg block_size=32    # vLLM's --block-size"),
        ("--tool-call-parser hermes", "--engine-arg tool_call_parser=hermes    # vLLM's --tool-call-parser"),
        (
            """--speculative-config '{"method": "ngram"}'""",
            """--engine-arg 'speculative_config={"method": "ngram"}'    # vLLM's --speculative-config""",
        ),
        ("--seed", "--engine-arg seed=N    # vLLM's --seed"),
        (
            "--served-model-name x",
            "vLLM's --served-model-name cannot be set: Ray Serve LLM serves the model under its id, "
            "spec.model.id (--model)",
        ),
    ],
)
def test_flags_of_vllm(typed: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(typed)
    err = error_of(capsys, "deploy", "Qwen/Qwen3-8B", *words)
    assert err == f"✗ unknown flag: {words[0].split('=')[0]}\n\nhint: {hint}\n      rayllm-ctl deploy --help\n"
    assert "hf_secret" not in err


def test_all_flags_of_a_command_of_vllm_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    typed = "--tensor-parallel-size 4 --max-model-len 32k --enable-lora --quantisation=fp8 --env A=1 --xyz -dp 2"
    assert error_of(capsys, "deploy", "Qwen/Qwen3-8B", *typed.split()) == (
        "✗ unknown flags: --tensor-parallel-size, --enable-lora, --quantisation, --xyz, -dp\n\n"
        "hint: --tp 4    # vLLM's --tensor-parallel-size\n"
        "      --engine-arg enable_lora=true    # vLLM's --enable-lora\n"
        "      --engine-arg data_parallel_size=2    # vLLM's -dp\n"
        "      --quantisation: did you mean --quantization?\n"
        "      rayllm-ctl deploy --help\n"
    )


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("deploy Qwen/Qwen3-8B --max 4 --min 1", "--max: did you mean --max-replicas?"),
        ("deploy Qwen/Qwen3-8B --max 4 --min 1", "--min: did you mean --min-replicas?"),
        ("scale qwen --max=4", "hint: did you mean --max-replicas?"),
        ("scale qwen --min 1", "hint: did you mean --min-replicas?"),
    ],
)
def test_bounds_as_kubectl_autoscale_names_them(typed: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hint in error_of(capsys, *typed.split())


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("batch submit X --input s3://a/in --output s3://a/out", "--output-path s3://a/out"),
        ("batch submit X --input s3://a/in -o 's3://a/my out'", "--output-path 's3://a/my out'"),
        ("render X -o folder/", "--output-dir folder/"),
        ("bench sweep X --output=results/one", "--output-dir results/one"),
    ],
)
def test_a_path_as_format(typed: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(typed)
    command = " ".join(words[: words.index("X")])
    message, _, hints = error_of(capsys, *words).partition("\n\nhint: ")
    assert message.startswith("✗ invalid value for --output: ")
    assert hints == f"{hint}\n      rayllm-ctl {command} --help\n"


def test_a_misspelt_format_is_no_path(capsys: pytest.CaptureFixture[str]) -> None:
    err = error_of(capsys, "render", "X", "-o", "jsn")
    assert err.endswith("\n\nhint: rayllm-ctl render --help\n")


def test_flags_after_a_command_are_not_those_of_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    err = error_of(capsys, "--bogus", "plan", "--gpu", "L4", "X")
    assert err == "✗ unknown flag: --bogus\n\nhint: rayllm-ctl --help\n"


def test_a_credential_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    token = "hf_" + "x" * 30
    err = error_of(capsys, "deploy", "X", "--hf-overrides", token, "--load-format", token)
    assert token not in err
    assert "--engine-arg load_format=VALUE" in err


def test_flags_of_vllm_are_of_commands_with_an_engine(capsys: pytest.CaptureFixture[str]) -> None:
    err = error_of(capsys, "status", "--trust-remote-code")
    assert err == "✗ unknown flag: --trust-remote-code\n\nhint: rayllm-ctl status --help\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("keys", "delete"), 'unknown command "delete", did you mean "revoke"?'),
        (("keys", "lits"), 'unknown command "lits", did you mean "list"?'),
        (("batch", "sumbit"), 'unknown command "sumbit", did you mean "submit"?'),
        (("batch", "delete"), 'unknown command "delete", did you mean "cancel"?'),
        (("uninstall", "x"), 'unknown command "uninstall", did you mean "delete"?'),
        (("batch", "xyz"), 'unknown command "xyz"'),
    ],
)
def test_near_commands(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    where = "" if words[0] == "uninstall" else f" {words[0]}"
    assert error_of(capsys, *words) == f"✗ {message}\n\nhint: rayllm-ctl{where} --help\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--color", "always", "gpus", "--bogus"),
        ("gpus", "--color", "always", "--bogus"),
        ("gpus", "--bogus", "--color=always"),
        ("batch", "--color", "always", "list", "--bogus"),
        ("bench", "--color", "always", "x", "--bogus"),
        ("bench", "x", "--bogus", "--color", "always"),
    ],
)
def test_color_anywhere(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b[31m✗" in error_of(capsys, *arguments)


def test_the_value_of_another_flag_is_no_global_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in error_of(capsys, "render", "--env", "--color=always", "X", "--bogus")


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_debug_anywhere(place: int, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["apply", "-f", "absent.yaml"]
    words.insert(place if place != 2 else 1, "--debug")
    assert app.run(words) == 2
    assert "Traceback" in capsys.readouterr().err


def answered(log: str) -> set[str]:
    return {
        line.partition(" in ")[0] for line in log.splitlines() if line.startswith("GET http") and " 200 in " in line
    }


@pytest.mark.parametrize("flags", [("-v",), ("--verbose",), ("--debug",), ()])
def test_verbose_prints_the_requests(flags: tuple[str, ...], run: Run, deploy: Deploy) -> None:
    deploy("--model", "Qwen/Qwen3-0.6B", "--name", "tiny")
    result = run("events", "tiny", *flags)
    assert result.code == 0
    lines = [line for line in result.err.splitlines() if line.startswith("GET http")]
    assert bool(lines) is bool(flags)
    if flags:
        assert any("/namespaces/llm/events?" in line and " 200 in " in line for line in lines)
        # A thread of another test may log a request that fails meanwhile.
        assert answered(run(*flags, "events", "tiny").err) == answered(result.err)
    assert "GET http" not in run("events", "tiny").err


@pytest.mark.parametrize(
    ("arguments", "ci", "live"),
    [(("gpus",), "", True), (("-v", "gpus"), "", False), (("gpus", "--debug"), "", False), (("gpus",), "true", False)],
)
def test_a_live_view_has_no_lines_between(
    arguments: tuple[str, ...], ci: str, live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command(cls=Command)
    @click.pass_context
    def command(ctx: click.Context) -> None:
        assert live_view(ctx) is live

    monkeypatch.setattr(app.LazyGroup, "get_command", lambda self, ctx, name: command)
    monkeypatch.setenv("CI", ci)
    assert app.run(arguments) == 0


@pytest.mark.parametrize("before", [(), ("--color=never",), ("--color", "never"), ("-v",)])
def test_bench_without_a_command_runs(before: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["bench", *before, "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: rayllm-ctl bench [OPTIONS] COMMAND")
    assert app.run(["bench", *before, "run", "--help"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("Usage: rayllm-ctl bench run [OPTIONS] [NAME]")
    assert app.run(["bench", *before, "qwen", "--help"]) == 0
    assert capsys.readouterr().out == page


@pytest.mark.parametrize("arguments", [("plan", "--help"), ("plan", "--offline", "--help-all"), ("help", "-v", "plan")])
def test_help_wins(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert app.run(arguments) == 0
    assert capsys.readouterr().out.startswith("Usage: rayllm-ctl plan [OPTIONS] [MODEL]")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--tp", "0"), "--tp: must be at least 1, not 0"),
        (("--replicas", "-1"), "--replicas: must be at least 1, not -1"),
        (("--min-replicas", "3", "--max-replicas", "2"), "--min-replicas: 3 is greater than --max-replicas (2)"),
        (("--max-replicas", "0"), "--max-replicas: must be at least 1, not 0"),
        (("--concurrency", "0"), "--concurrency: must be at least 1, not 0"),
    ],
)
def test_problems_name_the_flag(flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of(capsys, *MODEL, *flags).startswith(f"✗ {message}\n")


def test_no_fixed_replicas_leads_to_scaling_to_zero(capsys: pytest.CaptureFixture[str]) -> None:
    err = error_of(capsys, *MODEL, "--replicas", "0")
    assert err.startswith("✗ --replicas: must be at least 1, not 0\n\nhint: --min-replicas 0 --max-replicas 1    #")
    assert app.run([*MODEL, "--min-replicas", "0", "--max-replicas", "1"]) == 0


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("abc", 'RAYLLM_TP: "abc" is not a whole number', "unset RAYLLM_TP"),
        ("0", "RAYLLM_TP: must be at least 1, not 0", "rayllm-ctl plan --help"),
    ],
)
def test_problems_name_the_variable(
    value: str, message: str, hint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAYLLM_TP", value)
    assert error_of(capsys, *MODEL) == f"✗ {message}\n\nhint: {hint}\n"
    monkeypatch.setenv("RAYLLM_TP", "1")
    assert (
        error_of(capsys, *MODEL, "--tp", "0") == "✗ --tp: must be at least 1, not 0\n\nhint: rayllm-ctl plan --help\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("completion",), "SHELL is required (bash, zsh or fish)"),
        (("completion", "tcsh"), 'invalid value for SHELL: "tcsh" is not one of "bash", "zsh", "fish"'),
        (("keys", "create", "x"), "--key-name is required"),
        (("suspend",), "NAME is required"),
    ],
)
def test_what_is_required(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = " ".join(words[:2] if words[0] == "keys" else words[:1])
    assert error_of(capsys, *words) == f"✗ {message}\n\nhint: rayllm-ctl {command} --help\n"
