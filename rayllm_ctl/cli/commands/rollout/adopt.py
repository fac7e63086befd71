"""`adopt`: a service of the command line for the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import RESULT_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.wait_flags import dry_run_option
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.fact_sources import FactSources


@click.command(cls=Command, short_help="Hand a service over to the controller.")
@click.argument("name")
@click.option(
    "-f",
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Spec file, - for standard input; that of the LLMService NAME by default.",
)
@click.option("--offline", is_flag=True, help="Do not use the network to look up the model.")
@dry_run_option
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    name: str,
    file: Path | None,
    offline: bool,
    dry_run: Literal["none", "server"],
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Hand service NAME over to the controller, without a restart: an LLMService declares it from then on.

    The service has to be as the spec describes it. Otherwise nothing is done: deploy the file first.

    An adoption that was interrupted is continued by the same command.

    \b
      rayllm-ctl adopt qwen3-32b -f qwen3-32b.yaml
      rayllm-ctl adopt qwen3-32b --dry-run=server
    """
    from rayllm_ctl.cli.interrupted import interruptible
    from rayllm_ctl.cli.service import resolve_service
    from rayllm_ctl.cli.session import connect, print_meaning, show
    from rayllm_ctl.model.events import Noted
    from rayllm_ctl.workflows.render.types import RenderOptions
    from rayllm_ctl.workflows.rollout.llmservice.adopt import adopt, prepare_adoption, require_no_restart

    service = None if file is None else resolve_service(file, {}, kube.namespace)
    if service is not None and service.name != name:
        raise UsageError(
            f"the file describes {service.name}, and not {name}", hint=f"rayllm-ctl adopt {service.name} -f {file}"
        )
    cluster = connect(kube)
    namespace = (service.namespace if service is not None else None) or kube.namespace or cluster.namespace
    found = prepare_adoption(cluster, name, namespace, service, RenderOptions(facts=FactSources(offline=offline)))
    print_meaning(ctx, found.diff)
    require_no_restart(found)
    again = f"rayllm-ctl adopt {name} -n {namespace}    # continues"
    with show(ctx, output) as display, interruptible(f"{name} runs, and is adopted in part", again):
        for check in found.checks:
            display.handle(check)
        for event in adopt(found, dry_run=dry_run == "server"):
            display.handle(event)
        if dry_run == "server":
            display.handle(Noted("nothing was written"))
