"""`check`: whether a cluster can run services, and these services in particular."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import output_option, template_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.values import Duration
from rayllm_ctl.errors import FAILED, OK, TIMED_OUT, UsageError
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
@click.option("--pre", is_flag=True, help="Check what a cluster needs before KubeRay is installed in it.")
@click.option("--wait/--no-wait", default=False, show_default=True, help="Repeat the checks until none fails.")
@click.option(
    "--timeout", type=Duration(), default="5m", show_default=True, help="How long to repeat them with --wait."
)
@template_option
@output_option("table", "short", "json", "yaml")
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[Path, ...],
    service: str | None,
    offline: bool,
    pre: bool,
    wait: bool,
    timeout: float,
    template_dir: Path | None,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Check whether a cluster can run services: KubeRay, the namespace, rights, quotas, nodes and GPUs.

    With -f also what the services of spec files need: kinds, Secrets, volumes, the admission of their pods (a dry run),
    and places for their workers. Nothing is written. Exits with 1 when a check failed; warnings do not count.

    With -o short only failed checks and warnings are printed. --wait repeats the checks, and exits with 3 if one still
    fails after --timeout.

    With --security look at a live service instead, whoever applied it: Ray's token, NetworkPolicies, service accounts,
    users and privileges of containers, API keys, and what exposes it outside the cluster. A check fails where something
    is open that a change of the spec closes; what is unknown is a warning.

    \b
      rayllm-ctl check --pre
      rayllm-ctl check -n llm --wait
      rayllm-ctl check -n llm -f qwen.yaml
      rayllm-ctl check -n llm --security qwen3-32b
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_document
    from rayllm_ctl.cli.service import resolve_service
    from rayllm_ctl.cli.session import connect, printer
    from rayllm_ctl.workflows.render.service import rendering
    from rayllm_ctl.workflows.render.types import RenderOptions
    from rayllm_ctl.workflows.setup.checks import check_before_kuberay, check_cluster, check_service, until_none_fails
    from rayllm_ctl.workflows.setup.security import check_security

    render = RenderOptions(facts=FactSources(offline=offline), template_dir=template_dir)
    if service is not None and (files or offline or template_dir):
        raise UsageError(
            "--security looks at a live service: -f, --offline and --template-dir cannot be combined with it"
        )
    if pre and (files or service is not None):
        raise UsageError("--pre checks a cluster without KubeRay: -f and --security cannot be combined with it")
    services = [rendering(resolve_service(file, {}, kube.namespace), render) for file in files]
    cluster = connect(kube)
    named = next((one.namespace for one in services if one.namespace), None)
    namespace = named or kube.namespace or cluster.namespace

    def every() -> Iterator[Check]:
        if service is not None:
            yield from check_security(cluster, service, namespace)
            return
        if pre:
            yield from check_before_kuberay(cluster, namespace)
            return
        yield from check_cluster(cluster, namespace)
        for one in services:
            yield from check_service(cluster, one, one.namespace or namespace)

    checks = every() if not wait else until_none_fails(every, timeout, lambda line: click.echo(line, err=True))
    if output in MACHINE_FORMATS:
        found = list(checks)
        print_document("CheckResult", {"ok": all(check.ok is not False for check in found), "checks": found}, output)
    else:
        from rayllm_ctl.console.setup.checks import show_checks

        found = show_checks(checks, printer(ctx), short=output == "short")
    failed = any(check.ok is False for check in found)
    ctx.exit((TIMED_OUT if wait else FAILED) if failed else OK)
