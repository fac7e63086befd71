"""Write docs/reference/cli.md from the code; with --check only say whether it is current."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from rayllm_ctl.cli.app import COMMANDS, group
from rayllm_ctl.cli.parsing.command import ALL
from rayllm_ctl.errors import EXIT_CODES

_SHARED = re.compile(r"\n\n(?:Cluster|Global) options:(?:\n  .*)+")
"""Sections that are printed once."""

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"


def reference() -> str:
    """The whole reference as Markdown."""
    root = click.Context(
        group, info_name="rayllm-ctl", max_content_width=100, terminal_width=100, help_option_names=["-h", "--help"]
    )
    lines = [
        "# Command line reference", "",
        "Made from the code by `make docs`; `rayllm-ctl COMMAND --help-all` prints the same.", "",
        "| exit code | meaning |", "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()), "",
        "Every command has the global options, and commands that talk to a cluster those of the cluster:", "",
        "```", shared_options(root), "```", "",
        "Defaults of options come from the environment and a file: [configuration](configuration.md).", "",
    ]  # fmt: skip
    for title, section in COMMANDS.items():
        lines += [f"## {title}", ""]
        for name in section:
            command = group.get_command(root, name)
            assert command is not None
            for title, text in helps(command, name, name, root):
                lines += [f"### {title}", "", "```", _SHARED.sub("", text), "```", ""]
    return "\n".join(lines)


def shared_options(root: click.Context) -> str:
    """The sections of help pages with the options of the cluster and of all commands."""
    status = group.get_command(root, "status")
    assert status is not None
    [(_, page)] = helps(status, "status", "status", root)
    return "".join(match.group() for match in _SHARED.finditer(page)).strip("\n")


def helps(command: click.Command, name: str, title: str, parent: click.Context) -> Iterator[tuple[str, str]]:
    """The title and help of a command, and of those below it."""
    context = click.Context(command, info_name=name, parent=parent, max_content_width=100, terminal_width=100)
    context.meta[ALL] = True
    yield title, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from helps(found, below, f"{title} {below}", context)


def main() -> int:
    """0 when the file is (now) current, 1 when --check finds that it is not."""
    text = reference()
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write(f"{TARGET.name} is not what the code says\n\nhint: make docs\n")
        return 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
