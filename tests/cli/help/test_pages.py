"""Help pages: at 80 columns, with examples, and with every option in a group."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from rayllm_ctl.cli import app
from rayllm_ctl.cli.help.groups import GROUPS, MOST_USED, group_of
from rayllm_ctl.cli.help.page import described
from rayllm_ctl.cli.parsing.arguments import normalized, options_by_name
from tests.conftest import Golden

WIDTH = 80
FEW = 22
"""Options, without those of the cluster, that a page can show without groups."""


def commands(ctx: click.Context) -> Iterator[click.Context]:
    """Contexts of the command and of all below it."""
    yield ctx
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            found = ctx.command.get_command(ctx, name)
            assert found is not None
            yield from commands(click.Context(found, parent=ctx, info_name=name))


ROOT = click.Context(app.group, info_name="rayllm-ctl", help_option_names=["-h", "--help"])
ALL = {ctx.command_path: ctx for ctx in commands(ROOT)}


def page(path: str, flag: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    assert app.run([*path.split()[1:], flag]) == 0
    text, err = capsys.readouterr()
    assert err == ""
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []
    return text


def file_name(path: str) -> str:
    return path.replace(" ", "-").removeprefix("rayllm-ctl-")


@pytest.mark.parametrize("path", ALL)
def test_page(path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    golden.check(f"help/{file_name(path)}.txt", page(path, "--help", capsys, monkeypatch))


@pytest.mark.parametrize("path", [*(f"rayllm-ctl {name}" for name in MOST_USED), "rayllm-ctl status"])
def test_page_with_all_options(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    text = page(path, "--help-all", capsys, monkeypatch)
    golden.check(f"help/{file_name(path)}-all.txt", text)
    for option in ALL[path].command.get_params(ALL[path]):
        if isinstance(option, click.Option):
            assert re.search(rf"^  .*{max(option.opts, key=len)}(?![\w-])", text, re.M), option.opts


@pytest.mark.parametrize("path", ALL)
def test_a_page_is_short(path: str) -> None:
    ctx = ALL[path]
    name = path.removeprefix("rayllm-ctl ")
    flags = [max(one.opts, key=len) for one in ctx.command.get_params(ctx) if isinstance(one, click.Option)]
    own = [flag for flag in flags if group_of(name, flag) not in ("Cluster", "Global")]
    if name in MOST_USED:
        assert len(MOST_USED[name]) <= 17
        assert set(MOST_USED[name]) <= set(own)
        rest = [flag for flag in own if flag not in MOST_USED[name]]
        assert [flag for flag in rest if group_of(name, flag) is None] == ["--help"]
    else:
        assert len(own) <= FEW


def test_every_flag_of_a_group_exists() -> None:
    flags = {
        max(one.opts, key=len) for ctx in ALL.values() for one in ctx.command.get_params(ctx) if one.opts[0][:1] == "-"
    }
    assert {flag for group in GROUPS.values() for flag in group} - flags == set()


def example_commands(lines: list[str]) -> Iterator[list[str]]:
    """The words of each call of rayllm-ctl in the lines of an example."""
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        for words in re.split(r"\||&&", line):
            _, program, rest = words.partition("rayllm-ctl ")
            if program:
                yield shlex.split(re.split(r" > |\)", rest)[0], comments=True)


def parsed(words: list[str]) -> str:
    """The path of the command that `words` call; a UsageError if it has not such flags or arguments."""
    ctx = ROOT
    while True:
        command = ctx.command
        below = command.below(ctx, words) if hasattr(command, "below") else words
        _, words, _ = command.make_parser(ctx).parse_args(normalized(below, options_by_name(command, ctx), ctx))
        if not isinstance(command, click.Group):
            assert words == []
            return ctx.command_path
        if not words:
            return ctx.command_path
        name, found, words = command.resolve_command(ctx, words)
        assert found is not None
        ctx = click.Context(found, parent=ctx, info_name=name)


@pytest.mark.parametrize("path", ALL)
def test_every_command_has_examples_that_can_be_typed(path: str) -> None:
    _, lines = described(ALL[path].command)
    called = {parsed(words) for words in example_commands(lines)}
    assert any(one == path or one.startswith(f"{path} ") for one in called), called


def test_the_plugin_has_examples_with_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["suspend", "--help"], "kubectl rayllm") == 0
    text = capsys.readouterr().out
    assert "  kubectl rayllm suspend qwen3-32b -n llm\n" in text
    assert "More options (kubectl rayllm suspend --help-all):" in text
    assert "rayllm-ctl" not in text


@pytest.mark.parametrize("words", [(), ("keys",)])
def test_the_page_of_a_group_has_all_options(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([*words, "--help"]) == 0
    expected = capsys.readouterr().out
    assert app.run([*words, "--help-all"]) == 0
    assert capsys.readouterr().out == expected
    assert "--verbose" in expected
    assert "--help-all" not in expected


@pytest.mark.parametrize("words", [("deploy",), ("batch", "submit"), ("keys",), ()])
def test_help_shows_the_page_of_a_command(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([*words, "--help"]) == 0
    expected = capsys.readouterr().out
    assert app.run(["help", *words]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("deply",), '✗ unknown command "deply", did you mean "deploy"?\n\nhint: rayllm-ctl --help\n'),
        (("batch", "sumbit"), '✗ unknown command "sumbit", did you mean "submit"?\n\nhint: rayllm-ctl batch --help\n'),
        (("plan", "x"), "✗ rayllm-ctl plan has no commands below it\n\nhint: rayllm-ctl plan --help\n"),
    ],
)
def test_help_of_an_unknown_command(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["help", *words]) == 2
    assert capsys.readouterr().err == message
