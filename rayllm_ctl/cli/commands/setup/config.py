"""`config`: defaults of flags."""

from __future__ import annotations

from pathlib import Path

import click

from rayllm_ctl.cli.options import TABLE_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command, CommandGroup
from rayllm_ctl.errors import UsageError


@click.group(cls=CommandGroup, name="config", short_help="Show and change the defaults of flags.")
def command() -> None:
    """Show and change the defaults of flags, such as the namespace, the image or the kind of GPU of a team.

    A flag takes precedence over its environment variable (RAYLLM_GPU for --gpu), and that over the configuration file.

    \b
      rayllm-ctl config set namespace llm
      rayllm-ctl config view
    """


@command.command(cls=Command, name="view", short_help="Show the value of each setting, and where it is from.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@output_option(*TABLE_FORMATS)
@click.pass_context
def view(ctx: click.Context, flags: tuple[str, ...], output: str | None) -> None:
    """Show the value of each setting, and where it is from: a flag, a variable, the file, or the default.

    FLAGS after -- are read as a command with them would.

    \b
      rayllm-ctl config view
      RAYLLM_GPU=L4 rayllm-ctl config view -- --namespace llm
      rayllm-ctl config view -o json
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.cli.settings.file import config_path
    from rayllm_ctl.cli.settings.view import all_settings
    from rayllm_ctl.console.setup.config import config_table

    found = all_settings(ctx, flags)
    path = config_path()
    if output in MACHINE_FORMATS:
        print_document("Settings", {"file": None if path is None else str(path), "settings": found}, output)
    else:
        click.echo("\n".join(config_table(found)))


@command.command(cls=Command, name="set", short_help="Write a setting to the configuration file.")
@click.argument("name")
@click.argument("values", metavar="VALUE...", nargs=-1, required=True)
def set_value(name: str, values: tuple[str, ...]) -> None:
    """Check a value and write it to the configuration file; comments in the file stay. Some settings take several.

    \b
      rayllm-ctl config set gpu H100-80GB
      rayllm-ctl config set hf-token-secret hf/token
      rayllm-ctl config set node-selector team=search pool=a100
    """
    from rayllm_ctl.cli.settings.check import check_together, checked, other_settings
    from rayllm_ctl.cli.settings.file import change_config, file_to_change

    path = _path()
    exists = file_to_change(path).exists()
    value = checked(name, values, other_settings(name) if exists else {})
    if exists:
        check_together(name, value)
    _report(path, name, change_config(path, name, value))


@command.command(cls=Command, name="unset", short_help="Remove a setting from the configuration file.")
@click.argument("name")
def unset(name: str) -> None:
    """Remove a setting from the configuration file.

    \b
      rayllm-ctl config unset gpu
    """
    from rayllm_ctl.cli.settings.file import change_config, unknown_name
    from rayllm_ctl.cli.settings.names import setting_fields

    if name not in setting_fields():
        raise unknown_name(name)
    path = _path()
    _report(path, name, change_config(path, name, None))


@command.command(cls=Command, name="path", short_help="Print the path of the configuration file.")
def path() -> None:
    """Print the path of the configuration file, which need not exist.

    \b
      rayllm-ctl config path
    """
    click.echo(str(_path()))


def _path() -> Path:
    from rayllm_ctl.cli.settings.file import config_path

    found = config_path()
    if found is None:
        raise UsageError("there is no home directory", hint="export RAYLLM_CONFIG=PATH")
    return found


def _report(path: Path, name: str, changed: bool) -> None:
    click.echo(f"{path}: {name} {'changed' if changed else 'unchanged'}", err=True)
