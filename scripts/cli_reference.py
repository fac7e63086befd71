"""Write docs/reference/cli.md from the code; with --check only say whether it is current."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from rayllm_ctl.cli.app import COMMANDS, group
from rayllm_ctl.errors import EXIT_CODES

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"


def reference() -> str:
    """The whole reference as Markdown."""
    root = click.Context(
        group, info_name="rayllm-ctl", max_content_width=100, terminal_width=100, help_option_names=["-h", "--help"]
    )
    lines = [
        "# Command line reference", "",
        "Made from the code by `make docs`; `rayllm-ctl COMMAND --help` prints the same.", "",
        "| exit code | meaning |", "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()), "",
        "Every option can be set in the environment as `RAYLLM_<COMMAND>_<OPTION>`; the command line wins.", "",
    ]  # fmt: skip
    for title, section in COMMANDS.items():
        lines += [f"## {title}", ""]
        for name in section:
            command = group.get_command(root, name)
            assert command is not None
            for title, text in helps(command, name, name, root):
                lines += [f"### {title}", "", "```", text, "```", ""]
    return "\n".join(lines)


def helps(command: click.Command, name: str, title: str, parent: click.Context) -> Iterator[tuple[str, str]]:
    """The title and help of a command, and of those below it."""
    context = click.Context(command, info_name=name, parent=parent, max_content_width=100, terminal_width=100)
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
