"""`check`: whether a cluster can run services, and these services in particular."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import output_option, template_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.fact_sources import FactSources

if TYPE_CHECKING:
    from rayllm_ctl.model.observed.checks import Check


@click.command(cls=Command, short_help="Check whether a cluster can run services.")
@click.option(
    "-f",
    "--file",
    "files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="Spec file of a service to check for, - for standard input. Can be repeated.",
)
@click.option(
    "--security",
    "service",
    metavar="NAME",
    help="Show who can reach service NAME, a RayService or RayCluster, and what its pods may do.",
)
@click.option("--offline", is_flag=True, help="Do not use the network to look up the models.")
@template_option
@output_option("json", "yaml")
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[Path, ...],
    service: str | None,
    offline: bool,
    template_dir: Path | None,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Check whether a cluster can run services: KubeRay, the namespace, rights, quotas, nodes and GPUs.

    With -f also what the services of spec files need: kinds, Secrets, volumes, the admission of their pods (a dry run),
    and places for their workers. Nothing is written. Exits with 1 when a check failed; warnings do not count.

    With --security look at a live service instead, whoever applied it: Ray's token, NetworkPolicies, service accounts,
    users and privileges of containers, API keys, and what exposes it outside the cluster. A check fails where something
    is open that a change of the spec closes; what is unknown is a warning.

    \b
      rayllm-ctl check -n llm
      rayllm-ctl check -n llm -f qwen.yaml
      rayllm-ctl check -n llm --security qwen3-32b
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.cli.service import resolve_service
    from rayllm_ctl.cli.session import connect, printer
    from rayllm_ctl.workflows.render.service import rendering
    from rayllm_ctl.workflows.render.types import RenderOptions
    from rayllm_ctl.workflows.setup.checks import check_cluster, check_service
    from rayllm_ctl.workflows.setup.security import check_security

    render = RenderOptions(facts=FactSources(offline=offline), template_dir=template_dir)
    if service is not None and (files or offline or template_dir):
        raise UsageError(
            "--security looks at a live service: -f, --offline and --template-dir cannot be combined with it"
        )
    services = [rendering(resolve_service(file, {}, kube.namespace), render) for file in files]
    cluster = connect(kube)
    named = next((one.namespace for one in services if one.namespace), None)
    namespace = named or kube.namespace or cluster.namespace

    def every() -> Iterator[Check]:
        if service is not None:
            yield from check_security(cluster, service, namespace)
            return
        yield from check_cluster(cluster, namespace)
        for one in services:
            yield from check_service(cluster, one, one.namespace or namespace)

    if output in MACHINE_FORMATS:
        found = list(every())
        print_document("CheckResult", {"ok": all(check.ok is not False for check in found), "checks": found}, output)
    else:
        from rayllm_ctl.console.setup.checks import show_checks

        found = show_checks(every(), printer(ctx))
    ctx.exit(1 if any(check.ok is False for check in found) else 0)
