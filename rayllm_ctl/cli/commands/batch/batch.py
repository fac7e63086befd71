"""`batch`: rows in, one answer per row out."""

from __future__ import annotations

import importlib

import click

from rayllm_ctl.cli.subcommands import Subcommands

COMMANDS = {
    "submit": "Plan, render and apply a batch job.",
    "list": "List the batch jobs.",
    "status": "Show the state of a job, with causes.",
    "watch": "Follow a job until it ends.",
    "logs": "Print the log of a job's driver.",
    "head": "Print the first rows of the output.",
    "download": "Copy the output to this machine.",
    "cancel": "Delete a job and wait until its pods are gone.",
    "resume": "Run a job that has ended again, for what is missing.",
}
"""`submit` is in a module of its own, the others, for jobs that were submitted, in `jobs`."""


def _load(name: str) -> click.Command:
    if name == "submit":
        submit: click.Command = importlib.import_module("rayllm_ctl.cli.commands.batch.submit").command
        return submit
    commands: dict[str, click.Command] = importlib.import_module("rayllm_ctl.cli.commands.batch.jobs").JOB_COMMANDS
    return commands[name]


@click.group(
    name="batch", cls=Subcommands, table=COMMANDS, load=_load, short_help="Compute an answer for every row of a file."
)
def command() -> None:
    """Compute an answer for every row of a file, on GPUs that come and go with the job."""
