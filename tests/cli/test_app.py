"""The command group: light, complete, and the one place that turns errors into text."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from rayllm_ctl import __version__
from rayllm_ctl.cli import app
from rayllm_ctl.errors import EXIT_CODES, UserError

HEAVY = {"kubernetes", "pydantic", "jinja2", "rich", "yaml", "huggingface_hub", "httpx2", "jsonschema_rs", "urllib3"}


NAMES = [name for section in app.COMMANDS.values() for name in section]


def modules_after(*commands: list[str]) -> dict[str, set[str]]:
    """The top-level modules that one process has imported after each of these commands."""
    code = (
        "import sys, json; from rayllm_ctl.cli.app import run\n"
        "for command in json.loads(sys.argv[1]):\n"
        "    found = run(command), command, sorted({m.split('.')[0] for m in sys.modules})\n"
        "    print(json.dumps(found), file=sys.stderr)"
    )
    arguments = [sys.executable, "-c", code, json.dumps(commands)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(exit_code, command) for exit_code, command, _ in lines] == [(0, command) for command in commands]
    return {" ".join(command): set(names) for _, command, names in lines}


def test_help_and_version_import_nothing_heavy() -> None:
    loaded = modules_after(["--version"], ["--help"], *([name, "--help"] for name in NAMES))
    assert "click" in loaded["--version"]
    assert {command: names & HEAVY for command, names in loaded.items() if names & HEAVY} == {}


def test_what_asks_no_cluster_imports_no_client(tmp_path: Path) -> None:
    manifests = tmp_path / "qwen.yaml"
    manifests.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: qwen}\n")
    flags = ["--model", "Qwen/Qwen3-32B", "--gpu", "H100-80GB", "--tp", "4", "--offline"]
    commands = [
        ["plan", *flags], ["render", *flags], ["init", *flags],
        ["diff", "--local", str(manifests), str(manifests), "--offline"],
    ]  # fmt: skip
    loaded = modules_after(*commands)
    assert len(loaded) == len(commands)
    clients = {"kubernetes", "urllib3", "huggingface_hub", "httpx2"}
    assert {command for command, names in loaded.items() if names & clients} == set()


def test_what_asks_a_cluster_imports_no_client_of_the_hub(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}], "
        "contexts: [{name: c, context: {cluster: c}}], current-context: c}"
    )
    code = (
        "import sys; from rayllm_ctl.cli.app import run; run(['status', 'qwen', '--kubeconfig', sys.argv[1]])\n"
        "print(*{'kubernetes', 'huggingface_hub', 'httpx2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(kubeconfig)], capture_output=True, text=True, check=True)
    assert "127.0.0.1:9" in done.stderr
    assert done.stdout.split() == ["kubernetes"]


@pytest.mark.parametrize("name", NAMES)
def test_help_of_every_command_is_as_listed(name: str) -> None:
    command = app.group.get_command(click.Context(app.group), name)
    assert command is not None
    listed = next(section[name] for section in app.COMMANDS.values() if name in section)
    assert command.get_short_help_str(limit=200) == listed


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--version"]) == 0
    assert capsys.readouterr().out == f"rayllm-ctl {__version__}\n"


def test_help_lists_commands_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--help"]) == 0
    text = capsys.readouterr().out
    for section in app.COMMANDS.values():
        for name in section:
            assert f"  {name} " in text
    for code in EXIT_CODES:
        assert f"  {code} " in text


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["deply"]) == 2
    error = capsys.readouterr().err
    assert "deply" in error
    assert "deploy" in error
    assert "hint: " in error


@pytest.mark.parametrize("words", [(), ("keys",), ("batch",), ("bench",)])
def test_a_group_alone_prints_its_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(words) == 0
    out, err = capsys.readouterr()
    assert out.startswith(" ".join(("Usage: rayllm-ctl", *words, "[OPTIONS] COMMAND")))
    assert err == ""


def test_the_plugin_calls_itself_kubectl_rayllm(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--help"], "kubectl rayllm") == 0
    assert "Usage: kubectl rayllm" in capsys.readouterr().out


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """A command `version` that raises what the test puts into the list."""
    errors: list[Exception] = []

    @click.command()
    def command() -> None:
        raise errors[0]

    monkeypatch.setattr(app.LazyGroup, "get_command", lambda self, ctx, name: command)
    return errors


def test_a_user_error_is_message_blank_line_hints(failing: list[Exception], capsys: pytest.CaptureFixture[str]) -> None:
    failing.append(UserError("it is broken", hint=("mend it", "or leave it"), exit_code=4))
    assert app.run(["version"]) == 4
    error = capsys.readouterr().err
    assert "it is broken\n\nhint: mend it\n" in error
    assert "or leave it" in error
    assert "Traceback" not in error


def test_what_the_operating_system_says_of_a_file_is_no_defect(
    failing: list[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(OSError(36, "File name too long", "/xxx"))
    assert app.run(["version"]) == 1
    assert capsys.readouterr().err == "✗ /xxx: File name too long\n"


def test_a_defect_is_no_traceback_unless_asked(failing: list[Exception], capsys: pytest.CaptureFixture[str]) -> None:
    failing.append(ZeroDivisionError("oh"))
    assert app.run(["version"]) == 1
    error = capsys.readouterr().err
    assert "internal error: ZeroDivisionError: oh" in error
    assert "--debug" in error
    assert "Traceback" not in error
    with pytest.raises(ZeroDivisionError):
        app.run(["--debug", "version"])


def test_debug_shows_the_traceback_of_a_user_error(
    failing: list[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(UserError("it is broken"))
    assert app.run(["--debug", "version"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_interrupted(failing: list[Exception], capsys: pytest.CaptureFixture[str]) -> None:
    failing.append(KeyboardInterrupt())  # type: ignore[arg-type]
    assert app.run(["version"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(("shell", "word"), [("bash", "complete"), ("zsh", "compdef"), ("fish", "complete")])
def test_completion_scripts(shell: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert word in script
    assert "_RAYLLM_CTL_COMPLETE" in script


def test_color_never_holds_for_every_error(
    failing: list[Exception], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing.append(UserError("it is broken"))
    for arguments, plain in (
        (["version"], False),
        (["--color", "never", "version"], True),
        (["--color=never", "version", "extra"], True),
        (["--bogus", "--color", "never", "version"], True),
        (["--bogus", "version", "--color", "never"], False),  # not the group's flag: the command has none
        (["--color", "never", "version", "--color", "always"], True),
    ):
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        assert app.run(arguments) in (1, 2)
        assert ("\x1b" not in capsys.readouterr().err) is plain, arguments
    monkeypatch.setenv("RAYLLM_COLOR", "never")
    assert app.run(["version"]) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_debug_is_a_flag_and_no_word_of_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @click.command()
    @click.option("--name")
    def command(name: str) -> None:
        raise ZeroDivisionError(name)

    monkeypatch.setattr(app.LazyGroup, "get_command", lambda self, ctx, name: command)
    assert app.run(["version", "--name", "--debug"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        app.run(["--debug", "version", "--name", "x"])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["status", "--nmespace", "a"],
            "✗ unknown flag: --nmespace\n\nhint: did you mean --namespace?\n      rayllm-ctl status --help\n",
        ),
        (["--color", "purple", "status"], '✗ invalid value for --color: "purple" is not one of "auto", "always", "nev'),
        (["version", "x", "y"], "✗ unexpected argument: y\n\nhint: rayllm-ctl version --help\n"),
        (["deply"], '✗ unknown command "deply", did you mean "deploy"?\n\nhint: rayllm-ctl --help\n'),
    ],
)
def test_usage_errors_read_like_all_others(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(arguments) == 2
    assert capsys.readouterr().err.startswith(error)


@pytest.mark.parametrize(
    ("settings", "size"),
    [({"PYTHONIOENCODING": "latin-1"}, "2 × H100-80GB"), ({"LC_ALL": "C", "PYTHONUTF8": "0"}, "2 x H100-80GB")],
)
def test_output_is_utf_8_whatever_the_locale(settings: dict[str, str], size: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    command = [sys.executable, "-m", "rayllm_ctl"]
    plan = [*command, "plan", "--model", "Qwen/Qwen3-32B", "--gpu", "H100-80GB", "--tp", "2", "--offline"]
    done = subprocess.run(plan, capture_output=True, env=environment | settings, check=True)
    assert size in done.stdout.decode("utf-8")
    done = subprocess.run([*command, "éü"], capture_output=True, env=environment | settings, check=False)
    assert "éü" in done.stderr.decode("utf-8")


def test_arguments_that_are_not_utf_8_are_escaped() -> None:
    command: list[str | bytes] = [sys.executable, "-m", "rayllm_ctl", b"\xff"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 2
    assert 'unknown command "\\udcff"' in done.stderr.decode("utf-8")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("models",), 0),
        (("models", "-o", "json"), 0),
        (("--help",), 0),
        (("bench",), 0),
        (("plan", "--help-all"), 0),
        (("deploy", "--help"), 0),
        (("keys", "--help"), 0),
        (("plan", "Qwen/Qwen3-8B", "--gpu", "L4", "--offline"), 0),
        (("version",), 0),
        (("nonsense",), 2),
    ],
)
def test_an_output_that_nobody_reads_is_no_failure(words: tuple[str, ...], code: int) -> None:
    environment = os.environ | {"KUBECONFIG": "none"}
    for errors in (subprocess.PIPE, subprocess.STDOUT):
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "rayllm_ctl", *words]
        done = subprocess.run(command, stdout=writer, stderr=errors, text=True, check=False, env=environment)
        os.close(writer)
        assert done.returncode == code
        assert ("✗" in (done.stderr or "")) is (code == 2 and errors == subprocess.PIPE)


def test_a_connection_that_breaks_is_a_failure(failing: list[Exception], capsys: pytest.CaptureFixture[str]) -> None:
    failing.append(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert app.run(["version"]) == 1
    assert "internal error: BrokenPipeError" in capsys.readouterr().err


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A line of sh in which $CTL is rayllm-ctl."""
    environment = os.environ | {"CTL": f"{sys.executable} -m rayllm_ctl", "KUBECONFIG": "none"}
    return subprocess.run(["sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        "plan Qwen/Qwen3-8B --gpu L4 --offline",
        "plan Qwen/Qwen3-8B --gpu L4 --offline -o json",
        "models",
        "--help",
    ],
)
def test_output_that_is_lost_is_a_failure(words: str, tmp_path: Path) -> None:
    done = shell(f"$CTL {words} >&-", tmp_path)
    assert (done.returncode, done.stderr) == (1, "✗ the output cannot be written: standard output is closed\n")
    for streams in (">&- 2>&-", "<&- >&- 2>&-"):
        assert shell(f"$CTL {words} {streams}", tmp_path).returncode == 1
    done = shell(f"$CTL {words} 2>&-", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


@pytest.mark.parametrize("flags", ["", "-o json", "--fail-on outage"])
def test_differences_that_are_lost_are_not_an_answer(flags: str, tmp_path: Path) -> None:
    """1 means differences, which nobody has seen."""
    for name in "ab":
        text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: qwen}}\ndata: {{name: {name}}}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    assert shell(f"$CTL diff --local a.yaml b.yaml {flags}", tmp_path).returncode == 1
    done = shell(f"$CTL diff --local a.yaml b.yaml {flags} >&-", tmp_path)
    assert (done.returncode, done.stderr) == (7, "✗ the output cannot be written: standard output is closed\n")


def test_a_closed_output_is_no_failure_of_a_command_that_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: qwen}\n")
    for streams in (">&-", ">&- 2>&-", "<&- >&- 2>&-", "2>&-"):
        done = shell(f"$CTL diff --local a.yaml a.yaml --offline {streams}", tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    assert shell("$CTL nonsense >&- 2>&-", tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("plan -f - --offline", "-f FILE"),
        ("render -f - --offline", "-f FILE"),
        ("render --serve-config - --name a --offline", "--serve-config FILE"),
        ("batch submit Qwen/Qwen3-8B --input - --output-path s3://b/o/ --offline", "--input s3://bucket/prompts.txt"),
        ("chat qwen hello --api-key-file -", "--api-key-file FILE"),
    ],
)
def test_a_closed_input_is_named(words: str, hint: str, tmp_path: Path) -> None:
    done = shell(f"$CTL {words} <&-", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"✗ standard input is closed\n\nhint: {hint}")


@pytest.mark.parametrize(
    "words", ["render Qwen/Qwen3-8B --gpu L4 --output-dir x --offline", "init Qwen/Qwen3-8B --gpu L4 -o x --offline"]
)
def test_a_directory_that_was_deleted_is_named(words: str, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    done = shell(f"cd gone && rmdir ../gone && $CTL {words}", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "✗ the current directory does not exist any more\n\nhint: cd DIRECTORY\n"


def test_an_interruption_while_modules_are_imported() -> None:
    """Stands for Ctrl-C shortly after the start."""
    code = """
import sys
class Interrupted:
    def find_spec(self, name, *rest):
        if name == "rayllm_ctl.cli.app":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from rayllm_ctl.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "✗ interrupted\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_output_that_cannot_be_written() -> None:
    command = [sys.executable, "-m", "rayllm_ctl", "gpus", "L4"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "✗ the output cannot be written: No space left on device\n")


def test_a_locale_without_utf_8() -> None:
    command = [sys.executable, "-m", "rayllm_ctl", "plan", "--model", "Qwen/Qwen3-8B", "--gpu", "L4", "--offline"]
    for more, plain in (((), True), (("-o", "json"), False)):
        done = subprocess.run([*command, *more], env={**os.environ, "LC_ALL": "C"}, capture_output=True, check=True)
        assert done.stdout.isascii() is plain
    assert json.loads(done.stdout)["verdict"] == "fits"


def test_a_plan_fits_a_narrow_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    flags = ["plan", "--model", "Qwen/Qwen3-8B", "--gpu", "L4", "--offline"]
    assert app.run(flags) == 0
    usual = capsys.readouterr().out.splitlines()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert app.run(["--color", "never", *flags]) == 0
    narrow = capsys.readouterr().out.splitlines()
    assert max(map(len, usual)) > 80
    assert max(map(len, narrow)) <= 80
