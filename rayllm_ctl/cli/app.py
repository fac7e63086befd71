"""The lazy command group, and the one place where errors become text and exit codes.

`--help` and `--version` import no command: their one-line help is in COMMANDS, and a test compares it with the
command's own.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import select
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import click

from rayllm_ctl import __version__
from rayllm_ctl.cli.parsing.command import BEGUN, CommandGroup, UnknownFlagError
from rayllm_ctl.cli.parsing.global_flags import GlobalFlags
from rayllm_ctl.cli.parsing.read_ahead import EmptyValue, RepeatedOption, read_ahead
from rayllm_ctl.cli.settings.context import with_settings
from rayllm_ctl.console.style import Printer
from rayllm_ctl.errors import EXIT_CODES, FAILED, INTERRUPTED, OK, USAGE, OutageError, RiskyPlanError, UserError

COMMANDS: dict[str, dict[str, str]] = {
    "Deploy models": {
        "init": "Write a spec file with comments and the planned values.",
        "deploy": "Plan, render, apply and wait until the model answers.",
        "plan": "Show which GPUs a model fits on, how large, and why.",
        "render": "Print the manifests that deploy would apply.",
        "apply": "Apply the services of spec files.",
        "diff": "Show what a change would do to running services.",
        "fetch": "Download a model into a claim or bucket.",
    },
    "Batch jobs": {
        "batch": "Run batch inference over a dataset.",
    },
    "Measure": {
        "bench": "Measure a service under load.",
    },
    "Operate services": {
        "check": "Check whether a cluster can run services.",
        "status": "Show the health of a service, with causes.",
        "watch": "Follow a service's state and autoscaling.",
        "top": "Print the load of a service's replicas.",
        "wait": "Wait until a service is ready, healthy, scaled or deleted.",
        "events": "List the Kubernetes events of a service.",
        "logs": "Print the logs of a service.",
        "bundle": "Collect a service's objects, events and logs, without secrets.",
        "chat": "Talk to a service through the API server.",
        "endpoint": "Print the OpenAI-compatible address of a service.",
        "port-forward": "Forward a port of this machine to the OpenAI-compatible API of a service.",
        "keys": "Create, list and revoke API keys of a service.",
        "serve-config": "Print the Serve configuration of a service.",
        "dashboard": "Forward Ray's dashboard of a service to this machine.",
        "scale": "Change the replicas of a service.",
        "restart": "Restart the pods of a service step by step.",
        "suspend": "Stop a service's pods; keep its configuration.",
        "resume": "Start a suspended service again.",
        "history": "List the revisions of a service.",
        "rollback": "Apply an earlier revision of a service again.",
        "delete": "Delete a service and wait until its pods are gone.",
    },
    "In the cluster": {
        "controller": "Keep services as their LLMService objects say.",
        "adopt": "Hand a service over to the controller.",
        "release": "Take a service back from the controller.",
        "rerender": "Have the controller render a service again.",
    },
    "Reference": {
        "models": "List the known models, or show one.",
        "gpus": "List the known GPUs, or show one.",
        "image": "Print a Dockerfile for an image with all features.",
        "rbac": "Print the Roles that commands need.",
        "explain": "Explain a field of the spec file.",
        "config": "Show and change the defaults of flags.",
        "version": "Print the versions of rayllm-ctl, the cluster and KubeRay.",
        "completion": "Print the completion script of a shell.",
        "help": "Show the help page of a command.",
    },
}


TOPICS: dict[str, tuple[str, ...]] = {
    "plan": ("init", "plan", "models", "gpus", "image", "explain"),
    "render": ("render",),
    "rollout": (
        "deploy",
        "apply",
        "diff",
        "fetch",
        "scale",
        "restart",
        "suspend",
        "resume",
        "history",
        "rollback",
        "delete",
        "adopt",
        "release",
        "rerender",
    ),
    "observe": ("status", "watch", "top", "wait", "events", "logs", "bundle"),
    "access": ("chat", "endpoint", "port-forward", "keys", "serve-config", "dashboard"),
    "batch": ("batch",),
    "bench": ("bench",),
    "setup": ("check", "controller", "rbac", "config", "version", "completion", "help"),
}
"""The folder of cli/commands/ in which the module of a command is."""


CHANGING = frozenset({*TOPICS["rollout"], *TOPICS["batch"], *TOPICS["bench"], "keys"} - {"diff", "history"})
"""Commands that have not done their work when their output ends early. To end the others early is a choice."""


class _PipeError(Exception):
    """Carries a BrokenPipeError past Click, which would exit with 1 without a message, standalone or not."""

    def __init__(self, original: BrokenPipeError) -> None:
        super().__init__(original)
        self.original = original


class LazyGroup(CommandGroup):
    """Commands are modules of cli/commands/TOPIC/ with an attribute `command`, imported when they run."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError as error:
            raise _PipeError(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            if ctx.invoked_subcommand in CHANGING and ctx.meta.get(BEGUN):
                ctx.obj["unread"] = FAILED
            raise _PipeError(error) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        topic = next(topic for topic, names in TOPICS.items() if cmd_name in names)
        module = importlib.import_module(f"rayllm_ctl.cli.commands.{topic}.{cmd_name.replace('-', '_')}")
        return with_settings(module.command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(list(section.items()))
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Defaults of flags: environment variables, such as RAYLLM_GPU for --gpu, and the configuration file. "
    "rayllm-ctl config view lists them.",
)
@click.version_option(__version__, "-V", "--version", prog_name="rayllm-ctl", message="%(prog)s %(version)s")
def group() -> None:
    """From a model's name to a healthy, autoscaling, OpenAI-compatible endpoint on Kubernetes.

    \b
      rayllm-ctl plan Qwen/Qwen3-32B
      rayllm-ctl deploy Qwen/Qwen3-32B --gpu H100-80GB --tp 4
    """


def run(arguments: Sequence[str], program: str = "rayllm-ctl", codes: dict[str, int] | None = None) -> int:
    """Run the command line; return the exit code. With --debug errors show a traceback, and bugs are raised.

    codes: receives the exit codes of the command for a failure and for output that is not read.
    """
    codes = {} if codes is None else codes
    # diff changes the first: its exit code 1 means that there are differences
    codes.update({"failed": FAILED, "unread": OK})
    try:
        return _run(arguments, program, codes)
    except BrokenPipeError:
        # What reads the output has ended, as `head` does: exit quietly.
        read = not _has_no_reader(sys.stdout)
        for stream in (sys.stdout, sys.stderr):
            if _has_no_reader(stream):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return FAILED if read else codes["unread"]


def _run(arguments: Sequence[str], program: str, codes: dict[str, int]) -> int:
    flags = GlobalFlags()
    try:
        read_ahead(group, arguments, program, flags)
        result = _invoke(arguments, program, codes)
    except UserError as error:
        if flags.debug:
            import traceback

            traceback.print_exception(error)
        accepted = {RiskyPlanError: "--accept-risk", OutageError: "--accept-outage"}
        proceed = [f"{flag}    # proceeds anyway" for kind, flag in accepted.items() if isinstance(error, kind)]
        _print_error(flags, error.message, (*error.hints, *proceed))
        return codes["failed"] if error.exit_code == FAILED else error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        return OK
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        where = context.command_path if context else program
        message, hints = _usage_problem(error)
        _print_error(flags, message, (*hints, f"{where} --help"))
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        _print_error(flags, "interrupted")
        return INTERRUPTED
    except Exception as error:  # a bug: users see no traceback without --debug
        unread = isinstance(error, BrokenPipeError) and any(map(_has_no_reader, (sys.stdout, sys.stderr)))
        if flags.debug or unread:
            raise
        if isinstance(error, OSError) and error.filename is not None:  # for example a path that is too long
            _print_error(flags, f"{error.filename}: {error.strerror}")
            return codes["failed"]
        if isinstance(error, FileNotFoundError) and _has_no_directory():
            _print_error(flags, "the current directory does not exist any more", ("cd DIRECTORY",))
            return codes["failed"]
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
            _print_error(flags, f"the output cannot be written: {error.strerror}")
            return codes["failed"]
        hint = f"{program} --debug COMMAND    # shows where it occurred"
        _print_error(flags, f"internal error: {type(error).__name__}: {error}", (hint,))
        return codes["failed"]
    return result if isinstance(result, int) else OK


def _invoke(arguments: Sequence[str], program: str, codes: dict[str, int]) -> Any:
    try:
        return group.main(list(arguments), prog_name=program, standalone_mode=False, obj=codes)
    except _PipeError as error:
        raise error.original from None


def _has_no_directory() -> bool:
    """Whether the current directory has been deleted, from which relative paths are seen."""
    try:
        os.getcwd()  # noqa: PTH109  pathlib takes 4 ms, and --help does without
    except FileNotFoundError:
        return True
    return False


def _has_no_reader(stream: TextIO) -> bool:
    """Whether a stream is a pipe that nobody reads any more. Connections raise BrokenPipeError too."""
    poll = select.poll()
    try:
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError):  # it is not a stream of the operating system
        return False
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _print_error(flags: GlobalFlags, message: str, hints: Sequence[str] = ()) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody reads it, and the exit code is the same
        Printer.for_error(flags.color).error(message, hints)


def _usage_problem(error: click.ClickException) -> tuple[str, tuple[str, ...]]:
    """The message of a Click error in our format, and its hints."""
    if isinstance(error, UnknownFlagError):
        return error.format_message(), error.hints
    if isinstance(error, (EmptyValue, RepeatedOption)):
        return error.format_message(), (error.hint,) if error.hint else ()
    from rayllm_ctl.cli.parsing.arguments import choices
    from rayllm_ctl.cli.parsing.typed import name_as_typed
    from rayllm_ctl.cli.parsing.wording import in_our_words

    context, param = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is not None and param is not None and isinstance(error, click.BadParameter):
        name = name_as_typed(param, context)
        if isinstance(error, click.MissingParameter):
            return f"{name} is required{choices(param)}", ()
        return f"invalid value for {name}: {in_our_words(error.message)}", getattr(error, "hints", ())
    text = in_our_words(error.format_message())
    return text[:1].lower() + text[1:], ()
