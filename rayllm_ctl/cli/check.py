"""`check`: whether a cluster can run services, and these services in particular."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rayllm_ctl.cli.kubeflags import KubeFlags, kube_options
from rayllm_ctl.cli.options import output_option, template_option
from rayllm_ctl.model.factsources import FactSources

if TYPE_CHECKING:
    from rayllm_ctl.model.checks import Check


@click.command(short_help="Say what a cluster lacks to run services.")
@click.option(
    "-f",
    "--file",
    "files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="Spec file of a service to check for, - for standard input; repeatable.",
)
@click.option("--offline", is_flag=True, help="Use no network to look up the models.")
@template_option
@output_option("json", "yaml")
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[Path, ...],
    offline: bool,
    template_dir: Path | None,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Say what a cluster lacks to run services: KubeRay, the namespace, rights, quotas, nodes and GPUs.

    With -f also what the services of spec files need: kinds, Secrets, volumes, the admission of their pods (a dry run),
    and places for their workers. Nothing is written. Exits with 1 when a check failed; warnings do not count.

    \b
      rayllm-ctl check -n llm
      rayllm-ctl check -n llm -f qwen.yaml
    """
    from rayllm_ctl.cli.service import resolve
    from rayllm_ctl.cli.session import connect, print_data, printer
    from rayllm_ctl.model.jsonform import to_json
    from rayllm_ctl.workflows.checks import check_cluster, check_service
    from rayllm_ctl.workflows.rendering import RenderOptions, rendering

    render = RenderOptions(FactSources(offline=offline), template_dir=template_dir)
    services = [rendering(resolve(file, {}, kube.namespace), render) for file in files]
    cluster = connect(kube)
    named = next((one.namespace for one in services if one.namespace), None)
    namespace = kube.namespace or named or cluster.namespace

    def every() -> Iterator[Check]:
        yield from check_cluster(cluster, namespace)
        for one in services:
            yield from check_service(cluster, one, one.namespace or namespace)

    if output:
        found = list(every())
        print_data({"ok": all(check.ok is not False for check in found), "checks": to_json(found)}, output)
    else:
        from rayllm_ctl.console.checks import show_checks

        found = show_checks(every(), printer(ctx))
    ctx.exit(1 if any(check.ok is False for check in found) else 0)
