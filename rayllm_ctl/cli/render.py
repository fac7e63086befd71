"""`render`: the manifests, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rayllm_ctl.cli.options import (
    FLAGS,
    facts_options,
    kuberay_option,
    output_option,
    service_options,
    template_option,
)
from rayllm_ctl.errors import UsageError


@click.command(short_help="Print the manifests that deploy would apply.")
@service_options(files=True)
@facts_options
@click.option("-n", "--namespace", help="Namespace to write into the manifests; none by default.")
@click.option("--accept-risk", is_flag=True, help="Render a plan that is risky.")
@template_option
@kuberay_option()
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write a file per object and a kustomization.yaml into DIR/NAME instead.",
)
@output_option("yaml", "json")
def command(
    files: tuple[Path, ...],
    overrides: dict[str, Any],
    model_config: Path | None,
    offline: bool,
    prices: Path | None,
    namespace: str | None,
    accept_risk: bool,
    template_dir: Path | None,
    kuberay: str | None,
    output_dir: Path | None,
    output: str | None,
) -> None:
    """Print the manifests that `deploy` would apply, without a cluster. Equal input gives equal bytes.

    \b
      rayllm-ctl render --model Qwen/Qwen3-32B --gpu H100-80GB --tp 4 | kubectl apply --server-side -f -
      rayllm-ctl render -f qwen.yaml -f llama.yaml --output-dir clusters/prod
    """
    from rayllm_ctl.cli.service import resolve
    from rayllm_ctl.cli.session import print_manifests
    from rayllm_ctl.model.kuberayversions import DEFAULT
    from rayllm_ctl.model.podcontexts import lost
    from rayllm_ctl.workflows.outputdir import texts, write
    from rayllm_ctl.workflows.plan import make_plan
    from rayllm_ctl.workflows.render import manifests

    if output_dir is not None and output is not None:
        raise UsageError("--output-dir writes YAML files: -o cannot be combined with it")
    printed: list[dict[str, Any]] = []
    folders: dict[str, dict[str, str]] = {}
    seen: dict[tuple[str | None, str], Path | None] = {}
    for file in files or (None,):
        service = resolve(file, overrides, namespace, FLAGS)
        # A folder has the name of its service, whatever the namespace.
        key = (service.namespace if output_dir is None else None, service.name)
        if key in seen:
            raise UsageError(f"{file}: service {service.name} is in {seen[key]} as well", hint="change metadata.name")
        seen[key] = file
        plan = make_plan(service, model_config=model_config, offline=offline, prices=prices)
        rendered = manifests(plan, accept_risk=accept_risk, template_dir=template_dir, kuberay=kuberay or DEFAULT)
        if loss := lost(service.security.pod_security):
            click.echo(f"warning: {loss}", err=True)
        if output_dir is None:
            printed += rendered
        else:
            folders[service.name] = texts(rendered)
    if output_dir is None:
        print_manifests(printed, output or "yaml")
        return
    for written in write(output_dir, folders):
        click.echo(f"{written.path} {written.action}")
