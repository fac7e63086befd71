"""`render`: the manifests, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rayllm_ctl.cli.options import (
    FLAGS,
    facts_options,
    kuberay_option,
    output_option,
    service_options,
    template_option,
)
from rayllm_ctl.cli.serveconfig import serve_config_options, serve_file
from rayllm_ctl.errors import UsageError

if TYPE_CHECKING:
    from rayllm_ctl.workflows.rendering import Rendering


@click.command(short_help="Print the manifests that deploy would apply.")
@service_options(files=True)
@serve_config_options
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
    serve_config: Path | None,
    code: Path | None,
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
      rayllm-ctl render --serve-config config.yaml --code src --image rayproject/ray:2.60.0
    """
    from rayllm_ctl.cli.service import resolve
    from rayllm_ctl.cli.session import print_manifests
    from rayllm_ctl.model.kuberayversions import DEFAULT
    from rayllm_ctl.workflows.rendering import RenderOptions, rendering

    if output_dir is not None and output is not None:
        raise UsageError("--output-dir writes YAML files: -o cannot be combined with it")
    options = RenderOptions(model_config, offline, prices, accept_risk, template_dir, kuberay or DEFAULT)
    given = serve_file(serve_config, code, files[0] if files else None, template_dir, overrides, namespace)
    sources = [given] if given else (resolve(file, overrides, namespace, FLAGS) for file in files or (None,))
    # A folder has the name of its service, whatever the namespace.
    found: dict[tuple[str | None, str], Rendering] = {}
    for source in sources:
        one = rendering(source, options)
        key = (one.namespace if output_dir is None else None, one.name)
        if key in found:
            raise UsageError(f"two spec files describe service {one.name}", hint="change metadata.name of one of them")
        found[key] = one
        for note in one.notes:
            click.echo(note, err=True)
    if output_dir is None:
        print_manifests([item for one in found.values() for item in one.manifests], output or "yaml")
    else:
        _write(output_dir, found.values())


def _write(folder: Path, services: Iterable[Rendering]) -> None:
    from rayllm_ctl.workflows.outputdir import texts, write

    for written in write(folder, {one.name: texts(one.manifests) for one in services}):
        click.echo(f"{written.path} {written.action}")
