"""Completion in real shells: what a user types, and the command line after the TAB key."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rayllm_ctl.cli import app

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PATH with a rayllm-ctl that prints its arguments, except when it is asked for completions."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "rayllm-ctl"
    run = f'PYTHONPATH={ROOT} exec {sys.executable} -m rayllm_ctl "$@"'
    program.write_text(f'#!/bin/sh\nif [ -n "$_RAYLLM_CTL_COMPLETE" ]; then {run}; fi\nprintf "ran <%s>\\n" "$*"\n')
    program.chmod(0o755)
    plugin = folder / "kubectl_complete-rayllm"
    main = "from rayllm_ctl.__main__ import complete_for_kubectl as main; main()"
    plugin.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c "{main}" "$@"\n')
    plugin.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("TERM", "dumb")
    return folder


def script(shell: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert app.run(["completion", shell]) == 0
    written = folder / f"completion.{shell}"
    written.write_text(capsys.readouterr().out)
    return written


def typed(shell: list[str], *lines: str) -> str:
    """What a terminal shows after these lines were typed into an interactive shell."""
    outer, inner = pty.openpty()
    process = subprocess.Popen(shell, stdin=inner, stdout=inner, stderr=inner, start_new_session=True, close_fds=True)
    os.close(inner)
    os.write(outer, "".join(f"{line}\n" for line in (*lines, "exit")).encode())
    shown = b""
    while True:
        try:
            shown += os.read(outer, 4096)
        except OSError:  # the shell has ended
            break
    process.wait()
    os.close(outer)
    return shown.decode(errors="replace").replace("\r", "")


def test_bash(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = script("bash", path, capsys)
    shown = typed(
        ["bash", "--norc", "--noprofile", "-i"],
        f"source {source}",
        "rayllm-ctl plan --gpu H100-8\t--tp 2",
        "rayllm-ctl plan --gpu=H100-8\t",
        "rayllm-ctl pla\t--model qwen/qwen3-32b-f\t",
        "rayllm-ctl explain spec.repl\tmin",
        "rayllm-ctl rbac --for view\t",
        "rayllm-ctl config set gpu H200-1\t",
    )
    ran = [line.removeprefix("ran ") for line in shown.splitlines() if line.startswith("ran ")]
    assert ran == [
        "<plan --gpu H100-80GB --tp 2>",
        "<plan --gpu=H100-80GB>",
        "<plan --model Qwen/Qwen3-32B-FP8>",
        "<explain spec.replicasmin>",
        "<rbac --for viewer>",
        "<config set gpu H200-141GB>",
    ]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = script("zsh", path, capsys)
    shown = typed(
        ["zsh", "-f", "-i"],
        "autoload -U compinit; compinit -u -D",
        f"source {source}",
        "rayllm-ctl plan --gpu H100-8\t--tp 2",
        "rayllm-ctl plan --gpu=H100-8\t",
    )
    ran = [line.removeprefix("ran ").rstrip() for line in shown.splitlines() if line.startswith("ran ")]
    assert ran == ["<plan --gpu H100-80GB --tp 2>", "<plan --gpu=H100-80GB>"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = script("fish", path, capsys)
    asked = (
        f"source {source}",
        'complete -C "rayllm-ctl plan --gpu H100-"',
        'complete -C "rayllm-ctl plan --gpu=H100-8"',
    )
    done = subprocess.run(["fish", "--no-config", "-c", "; ".join(asked)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["H100-80GB", "H100-NVL-94GB", "H100-PCIe", "--gpu=H100-80GB"]


def test_kubectl(path: Path) -> None:
    """The protocol of kubectl: an executable kubectl_complete-NAME on PATH, which ends with a directive of Cobra."""

    def complete(*words: str) -> list[str]:
        done = subprocess.run(["kubectl_complete-rayllm", *words], capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.splitlines()

    assert complete("plan", "--gpu", "L4") == ["L4", "L40", "L40S", ":4"]
    assert complete("pla") == ["plan\tShow which GPUs a model fits on, how large, and why.", ":4"]
    assert complete("plan", "-f", "") == [":0"]
    assert complete("plan", "--gpu", "Z") == [":4"]
    assert "status\tShow the health of a service, with causes." in complete("")
    assert complete("nonsense", "--gpu", "") == [""]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_itself(path: Path) -> None:
    plugin = path / "kubectl-rayllm"
    plugin.symlink_to(path / "rayllm-ctl")
    asked = ["kubectl", "__complete", "rayllm", "plan", "--gpu", "H100-8"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["H100-80GB", ":4"]
