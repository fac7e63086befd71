"""`batch`: batch inference over a dataset."""

from __future__ import annotations

import importlib

import click

from rayllm_ctl.cli.subcommands import Subcommands

COMMANDS = {
    "init": "Write the spec file of a job with comments and the planned values.",
    "submit": "Plan, render and apply a batch job.",
    "list": "List the batch jobs.",
    "status": "Show the state of a job, with causes.",
    "watch": "Follow a job until it ends.",
    "logs": "Print the log of a job's driver.",
    "head": "Print the first rows of the output.",
    "download": "Copy the output to this machine.",
    "cancel": "Delete a job and wait until its pods are gone.",
    "resume": "Run a finished job again for the missing rows.",
}
"""`init` and `submit` have modules of their own; the commands for submitted jobs are in `jobs`."""


def _load(name: str) -> click.Command:
    if name in ("init", "submit"):
        own: click.Command = importlib.import_module(f"rayllm_ctl.cli.commands.batch.{name}").command
        return own
    commands: dict[str, click.Command] = importlib.import_module("rayllm_ctl.cli.commands.batch.jobs").JOB_COMMANDS
    return commands[name]


@click.group(
    name="batch", cls=Subcommands, table=COMMANDS, load=_load, short_help="Run batch inference over a dataset."
)
def command() -> None:
    """Run batch inference over a dataset, on GPUs that exist only for the job.

    \b
      rayllm-ctl batch submit -f job.yaml
      rayllm-ctl batch watch summaries -n llm
      rayllm-ctl batch head summaries -n llm
    """
