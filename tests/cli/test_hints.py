"""Flags in messages and hints exist: those of this program, on the command that a hint is for, and those of others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import pytest

from rayllm_ctl.cli.app import group
from rayllm_ctl.specfile.explain import explain
from tests.specfile.test_explain import below

ROOT = Path(__file__).parents[2] / "rayllm_ctl"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")

OF_OTHER_PROGRAMS = frozenset(
    {
        # kubectl
        "--containers", "--field-selector", "--force", "--from-env-file", "--from-file", "--from-literal",
        "--grace-period", "--minify", "--overrides", "--overwrite", "--raw", "--restart", "--rm", "--server-side",
        "--show-labels", "--sort-by", "--subresource", "--type",
        # helm, the KubeRay operator, ray, vLLM, redis-cli, pip, apt-get, wget
        "--address", "--create-namespace", "--repo", "--feature-gates", "--watch-namespace", "--max-worker-port",
        "--min-worker-port", "--kv-cache-memory-bytes", "--pattern", "--scan", "--no-cache-dir",
        "--no-deps", "--no-install-recommends", "--python", "--wheel-dir", "--without-pip",
        "--spider",
        # of what runs in the pods
        "--settings", "--no",
    }
)  # fmt: skip

OF_BATCH_SUBMIT = (
    "model/spec/**/batch*.py", "model/plan/batch.py", "model/observed/batch_*.py", "render/prompts.py",
    "workflows/render/batch.py", "cli/batch_spec.py", "serving/batch/**/*.py",
)  # fmt: skip
"""Messages about a batch job that is to be submitted, and what its driver says of it."""


def flags(command: click.Command) -> set[str]:
    """The flags of a command and of all below it."""
    options = command.get_params(click.Context(command, help_option_names=["-h", "--help"]))
    own = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            own |= flags(found)
    return own


def command(*names: str) -> click.Command:
    found: click.Command = group
    for name in names:
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), name)
        assert below is not None
        found = below
    return found


def texts(file: Path) -> Iterator[str]:
    """The string constants of a module that are not docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    loose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in loose:
            yield node.value


def matching(patterns: Iterable[str]) -> Iterator[Path]:
    for pattern in patterns:
        files = list(ROOT.glob(pattern))
        assert files, pattern
        yield from files


FIELD = re.compile(r"\bspec\.[a-zA-Z]+(?:\.[a-zA-Z]+)*")


def test_a_field_in_a_message_about_a_batch_job_exists() -> None:
    known = {"spec"} | {field.path for field in below(explain("batchjob"))}
    modules = list(matching(OF_BATCH_SUBMIT))
    named = {(file.name, field) for file in modules for text in texts(file) for field in FIELD.findall(text)}
    assert named
    assert {(name, field) for name, field in named if field not in known} == set()


@pytest.mark.parametrize(
    ("of", "files"), [((), ("**/*.py",)), (("batch", "submit"), OF_BATCH_SUBMIT)], ids=["all", "batch submit"]
)
def test_a_flag_in_a_message_exists(of: tuple[str, ...], files: tuple[str, ...]) -> None:
    known = flags(command(*of)) | OF_OTHER_PROGRAMS
    modules = list(matching(files))
    named = {(file.name, flag) for file in modules for text in texts(file) for flag in FLAG.findall(text)}
    assert {(name, flag) for name, flag in named if flag not in known} == set()


PROSE = re.compile(
    r", (?:an?|and|the|where|which|with) | (?:computes|lists|prints|reads|sends|shows|takes|to|waits|with|writes) "
)


def hints(file: Path) -> Iterator[str]:
    """The texts that a module hands over as hints, with X for what is inserted."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.keyword) or node.arg != "hint":
            continue
        for text in ast.walk(node.value):
            if isinstance(text, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in text.values)
            elif isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.value


def test_a_remark_about_a_command_is_a_comment() -> None:
    commands = [
        (file.name, hint.partition("    # ")[0])
        for file in matching(("**/*.py",))
        for hint in hints(file)
        if hint.startswith(("rayllm-ctl ", "kubectl ", "--"))
    ]
    assert len(commands) > 100
    assert [(name, hint) for name, hint in commands if PROSE.search(re.sub(r"'[^']*'", "X", hint))] == []
    assert [(name, hint) for name, hint in commands if "   (" in hint] == []
