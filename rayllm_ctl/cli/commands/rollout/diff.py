"""`diff`: the changes that deploy would make, and their effect on running services."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, given_cluster_flags, kube_options
from rayllm_ctl.cli.options import facts_options, output_option, service_options, template_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.serve_config_flags import serve_config_options, serve_file
from rayllm_ctl.cli.spec_flags import FLAGS
from rayllm_ctl.errors import FAILED, NO_ANSWER, OK, RULED_OUT, FieldConflictError, UsageError, UserError
from rayllm_ctl.model.kube.labels import MANAGER
from rayllm_ctl.model.spec.fact_sources import FactSources

if TYPE_CHECKING:
    from rayllm_ctl.console.style import Printer
    from rayllm_ctl.model.observed.changes import Diff
    from rayllm_ctl.workflows.render.types import RenderOptions

_RULES = (
    "new-cluster",
    "recreate",
    "restart",
    "outage",
    "bounds",
    "not-rolled-out",
    "deleted",
    "no-capacity",
    "rejected",
    "unknown",
)


@click.command(cls=Command, short_help="Show what a change would do to running services.")
@service_options()
@serve_config_options
@facts_options
@template_option
@click.option(
    "--local",
    type=click.Path(path_type=Path),
    nargs=2,
    metavar="OLD NEW",
    help="Compare two rendered files or folders, or two spec files, without a cluster; - for standard input.",
)
@click.option(
    "--fail-on",
    type=click.Choice(_RULES),
    multiple=True,
    metavar="EFFECT",
    help=f"Exit with 6 if a change has this effect: {', '.join(_RULES)}. Can be repeated.",
)
@click.option("--accept-risk", is_flag=True, help="Compare a plan that is risky.")
@click.option("--force-conflicts", is_flag=True, help="Compare as if fields of other field managers were taken over.")
@click.option(
    "--field-manager",
    default=MANAGER,
    show_default=True,
    help="Compare with what this field manager would apply, such as argocd-controller or kubectl.",
)
@output_option("diff", "markdown", "json", "yaml")
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    file: Path | None,
    overrides: dict[str, Any],
    serve_config: Path | None,
    code: Path | None,
    facts: FactSources,
    template_dir: Path | None,
    local: tuple[Path, Path] | None,
    fail_on: tuple[str, ...],
    accept_risk: bool,
    force_conflicts: bool,
    field_manager: str,
    output: str | None,
    kube: KubeFlags,
) -> int:
    """Show what deploy would change in the cluster, and the effect on running services. Nothing is written.

    Exit codes: 0 no differences, 1 differences, 6 a change matches --fail-on, 7 and others failed. -o diff prints the
    format of kubectl diff.

    \b
      rayllm-ctl diff -f qwen.yaml
      rayllm-ctl diff Qwen/Qwen3-32B --gpu H100-80GB --tp 8
      rayllm-ctl diff --local old.yaml new.yaml -o markdown --fail-on new-cluster
    """
    ctx.obj["failed"] = NO_ANSWER
    from rayllm_ctl.workflows.render.types import RenderOptions
    from rayllm_ctl.workflows.rollout.diff import DiffOptions, diff

    render = RenderOptions(facts=facts, accept_risk=accept_risk, template_dir=template_dir)
    if local:
        if file is not None or overrides or serve_config is not None:
            raise UsageError("--local compares two files: -f and the flags of a service cannot be combined with it")
        of_apply = {"--force-conflicts": force_conflicts, "--field-manager": field_manager != MANAGER}
        named = ", ".join((*given_cluster_flags(), *(flag for flag, given in of_apply.items() if given)))
        if named:
            raise UsageError(f"--local compares two files and asks no cluster: {named} cannot be combined with it")
        found = _local(*local, replace(render, facts=replace(facts, named_only=True)))
    else:
        from rayllm_ctl.cli.service import resolve_service
        from rayllm_ctl.cli.session import connect

        service = serve_file(serve_config, code, file, template_dir, overrides, kube.namespace) or resolve_service(
            file, overrides, kube.namespace, FLAGS
        )
        options = DiffOptions(force_conflicts=force_conflicts, field_manager=field_manager, render=render)
        try:
            found = diff(service, options, lambda: connect(kube))
        except FieldConflictError as error:
            others = (
                "--field-manager NAME    # compares with what their owner would apply, if it is to apply this change",
                "--force-conflicts    # compares as if these fields were taken over",
            )
            raise FieldConflictError(error.message, hint=(*others, *error.hints)) from error
    _print(ctx, found, output)
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    _judge(found, fail_on)
    return FAILED if found else OK


def _local(old: Path, new: Path, options: RenderOptions) -> Diff:
    from rayllm_ctl.files import STANDARD_INPUT
    from rayllm_ctl.workflows.rollout.diff import diff_files
    from rayllm_ctl.workflows.rollout.manifest_files import read_manifest_files

    if old == new == Path(STANDARD_INPUT):
        raise UsageError("--local: standard input cannot be both files", hint="--local FILE -")
    before, _ = read_manifest_files(old, options)
    after, seconds = read_manifest_files(new, options)
    return diff_files(before, after, seconds)


def _print(ctx: click.Context, found: Diff, output: str | None) -> None:
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.cli.session import printer
    from rayllm_ctl.console.rollout import diff as console

    if output in MACHINE_FORMATS:
        print_document("Diff", console.diff_document(found), output)
    elif output == "markdown":
        click.echo(console.format_markdown(found), nl=False)
    elif found:
        style = printer(ctx)
        if output is None:
            for line in console.format_meaning(found, style):
                style.line(line)
            style.line()
        _print_unified(found, style)


def _print_unified(found: Diff, style: Printer) -> None:
    """Print the differences, with the program of KUBECTL_EXTERNAL_DIFF if it is set."""
    from rayllm_ctl.console.rollout import diff as console

    variable = os.environ.get("KUBECTL_EXTERNAL_DIFF")
    if not variable:
        click.echo(console.format_unified(found, style), nl=False, color=style.colors)
        return
    from rayllm_ctl.console.rollout.external_diff import show, split

    program, parameters, dropped = split(variable)
    for one in dropped:
        click.echo(f"KUBECTL_EXTERNAL_DIFF: {one} is left out, as kubectl does: it has other characters "
                   "than letters, digits, - and =", err=True)  # fmt: skip
    show(found, program, parameters)


def _judge(found: Diff, fail_on: tuple[str, ...]) -> None:
    """Raise UserError if a change has an effect of `fail_on`."""
    broken = []
    for item in found.objects:
        for rule in fail_on:
            if rule in item.effects or (rule == "outage" and item.outage) or (rule == "no-capacity" and item.waits):
                fields = [change.field for change in item.explanation.changes if change.effect == rule]
                because = f" ({', '.join(fields)})" if fields else ""
                broken.append(f"{rule}: {item.kind} {item.name}{because}")
    if broken:
        raise UserError("\n".join(["rejected by --fail-on", *(f"  {line}" for line in broken)]), exit_code=RULED_OUT)
