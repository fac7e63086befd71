"""The lazy command group, and the one place where errors become text and exit codes.

`--help` and `--version` import no command: their one-line help is in COMMANDS, and a test compares it with the
command's own.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Sequence

import click

from rayllm_ctl import __version__
from rayllm_ctl.cli.repeated import RepeatedOption, reject_repeated
from rayllm_ctl.console.style import Color, Printer
from rayllm_ctl.errors import EXIT_CODES, FAILED, INTERRUPTED, OK, USAGE, OutageError, RiskyPlanError, UserError

COMMANDS: dict[str, dict[str, str]] = {
    "Deploy models": {
        "init": "Write a spec file with comments and the planned values.",
        "deploy": "Plan, render, apply and wait until the model answers.",
        "plan": "Show which GPUs a model fits on, how large, and why.",
        "render": "Print the manifests that deploy would apply.",
        "apply": "Apply the services of spec files.",
        "diff": "Show what a change would do to running services.",
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
        "version": "Print the versions of rayllm-ctl, the cluster and KubeRay.",
        "completion": "Print the completion script of a shell.",
    },
}


TOPICS: dict[str, tuple[str, ...]] = {
    "plan": ("init", "plan", "models", "gpus", "image", "explain"),
    "render": ("render",),
    "rollout": (
        "deploy",
        "apply",
        "diff",
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
    "setup": ("check", "controller", "rbac", "version", "completion"),
}
"""The folder of cli/commands/ in which the module of a command is."""


class LazyGroup(click.Group):
    """Commands are modules of cli/commands/TOPIC/ with an attribute `command`, imported when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for section in COMMANDS.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        topic = next(topic for topic, names in TOPICS.items() if cmd_name in names)
        module = importlib.import_module(f"rayllm_ctl.cli.commands.{topic}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if not name.startswith("-") and name not in self.list_commands(ctx):
            from rayllm_ctl.model.kube.names import did_you_mean

            meant = did_you_mean(name, (f'"{one}"' for one in self.list_commands(ctx)))
            raise click.UsageError(f'unknown command "{name}"' + (f", {meant}" if meant else ""), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl(list(section.items()))
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "RAYLLM", "max_content_width": 110},
    epilog="Flags can also be set by environment variables: RAYLLM_<COMMAND>_<FLAG>, for example RAYLLM_DEPLOY_GPU.",
)
@click.version_option(__version__, "-V", "--version", prog_name="rayllm-ctl", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Print a traceback when a command fails.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="When to use colors. NO_COLOR takes precedence.",
)
@click.pass_context
def group(ctx: click.Context, debug: bool, color: str) -> None:
    """From a model's name to a healthy, autoscaling, OpenAI-compatible endpoint on Kubernetes.

    \b
      rayllm-ctl plan   --model Qwen/Qwen3-32B
      rayllm-ctl deploy --model Qwen/Qwen3-32B --gpu H100-80GB --tp 4
    """
    ctx.meta["rayllm.debug"] = debug
    ctx.meta["rayllm.color"] = color


def run(arguments: Sequence[str], program: str = "rayllm-ctl") -> int:
    """Run the command line; return the exit code. With --debug errors show a traceback, and bugs are raised."""
    debug, color = _global_options(arguments, program)
    printer = Printer.for_error(color)
    codes = {"failed": FAILED}  # diff changes it: its exit code 1 means that there are differences
    try:
        reject_repeated(group, arguments, program, None)
        result = group.main(list(arguments), prog_name=program, standalone_mode=False, obj=codes)
    except UserError as error:
        if debug:
            import traceback

            traceback.print_exception(error)
        accepted = {RiskyPlanError: "--accept-risk", OutageError: "--accept-outage"}
        flags = [f"{flag} to proceed anyway" for kind, flag in accepted.items() if isinstance(error, kind)]
        printer.error(error.message, (*error.hints, *flags))
        return codes["failed"] if error.exit_code == FAILED else error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return USAGE
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        where = context.command_path if context else program
        message, hints = _usage_problem(error)
        printer.error(message, (*hints, f"{where} --help"))
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        printer.error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # stdout was closed (`| head`): exit quietly.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:  # a bug: users see no traceback without --debug
        if debug:
            raise
        if isinstance(error, OSError) and error.filename is not None:  # for example a path that is too long
            printer.error(f"{error.filename}: {error.strerror}")
            return codes["failed"]
        hint = f"{program} --debug COMMAND shows where it occurred"
        printer.error(f"internal error: {type(error).__name__}: {error}", (hint,))
        return codes["failed"]
    return result if isinstance(result, int) else OK


def _usage_problem(error: click.ClickException) -> tuple[str, tuple[str, ...]]:
    """The message of a Click error in our format, and its hints."""
    if isinstance(error, click.NoSuchOption):
        close = " or ".join(error.possibilities or ())
        return f"unknown flag: {error.option_name}", (f"did you mean {close}?",) if close else ()
    if isinstance(error, RepeatedOption):
        return error.format_message(), (error.hint,) if error.hint else ()
    text = error.format_message().rstrip(".")
    text = re.sub(r"'([^']*)'", r'"\1"', re.sub(r"'(-[^']*)'", r"\1", text))
    return text[:1].lower() + text[1:], ()


def _global_options(arguments: Sequence[str], program: str) -> tuple[bool, Color]:
    """--debug and --color, even if the rest of the command line cannot be parsed."""
    context = group.make_context(
        program,
        list(arguments),
        resilient_parsing=True,
        ignore_unknown_options=True,
        **group.context_settings,
    )
    return context.params["debug"] or False, context.params["color"] or "auto"
