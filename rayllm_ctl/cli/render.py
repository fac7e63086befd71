"""`render`: the manifests, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.options import FLAGS, facts_options, kuberay_option, output_option, service_options
from rayllm_ctl.cli.serveconfig import serve_config_options, serve_file


@click.command(short_help="Print the manifests that deploy would apply.")
@service_options(several=True)
@serve_config_options
@facts_options
@click.option("-n", "--namespace", help="Namespace to write into the manifests; none by default.")
@click.option("--accept-risk", is_flag=True, help="Render a plan that is risky.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("manifests", "helm-values")),
    default="manifests",
    show_default=True,
    help="What to print: manifests, or values for the Helm chart in charts/rayllm.",
)
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write a folder per service, with a file per object and a kustomization.yaml, instead of standard output.",
)
@kuberay_option()
@output_option("yaml", "json", default="yaml")
def command(
    files: tuple[Path, ...],
    overrides: dict[str, Any],
    serve_config: Path | None,
    code: Path | None,
    model_config: Path | None,
    offline: bool,
    prices: Path | None,
    namespace: str | None,
    accept_risk: bool,
    form: str,
    output_dir: Path | None,
    kuberay: str | None,
    output: str,
) -> None:
    """Print the manifests that `deploy` would apply, without a cluster. Equal input gives equal bytes.

    \b
      rayllm-ctl render --model Qwen/Qwen3-32B --gpu H100-80GB --tp 4 | kubectl apply --server-side -f -
      rayllm-ctl render -f qwen.yaml --output-dir deploy && kubectl apply --server-side -k deploy/qwen3-32b
      rayllm-ctl render --serve-config config.yaml --code src --image rayproject/ray:2.60.0
    """
    from rayllm_ctl.cli.service import resolve
    from rayllm_ctl.cli.session import print_data, print_manifests
    from rayllm_ctl.errors import UsageError
    from rayllm_ctl.model.kuberayversions import DEFAULT
    from rayllm_ctl.model.podcontexts import lost
    from rayllm_ctl.workflows.applications import prepare
    from rayllm_ctl.workflows.folders import write_folders
    from rayllm_ctl.workflows.plan import make_plan
    from rayllm_ctl.workflows.render import chart_values, manifests

    if form == "helm-values" and (serve_config or output_dir or len(files) > 1):
        raise UsageError(
            "--format helm-values: writes the values of one planned service to standard output",
            hint="leave out --serve-config and --output-dir, and give -f once",
        )
    rendered: dict[str, Sequence[dict[str, Any]]] = {}
    given = serve_file(serve_config, code, files[0] if files else None, overrides, namespace)
    if given is not None:
        found = prepare(given, kuberay or DEFAULT)
        for line in (*found.notes, *found.explanation):
            click.echo(line, err=True)
        rendered[given.service.name] = found.manifests
    for file in () if given is not None else files or (None,):
        service = resolve(file, overrides, namespace, FLAGS)
        if service.name in rendered:
            raise UsageError(f"{file}: there are two services named {service.name}", hint="rename one of them")
        plan = make_plan(service, model_config=model_config, offline=offline, prices=prices)
        rendered[service.name] = manifests(plan, accept_risk=accept_risk, kuberay=kuberay or DEFAULT)
        if loss := lost(service.security.pod_security):
            click.echo(f"warning: {service.name}: {loss}" if len(files) > 1 else f"warning: {loss}", err=True)
        if form == "helm-values":
            print_data(chart_values(plan), output)
            return
    if output_dir is None:
        print_manifests([manifest for objects in rendered.values() for manifest in objects], output)
        return
    for line in write_folders(output_dir, rendered):
        click.echo(line, err=True)
