"""`render`: manifests on standard output."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rayllm_ctl.cli.options import facts_options, kuberay_option, output_option, service_options, template_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.serve_config_flags import serve_config_options, serve_file
from rayllm_ctl.cli.spec_flags import FLAGS
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.fact_sources import FactSources

if TYPE_CHECKING:
    from rayllm_ctl.workflows.render.types import Rendering, RenderOptions


@click.command(cls=Command, short_help="Print the manifests that deploy would apply.")
@service_options(several=True)
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
    help="Write a folder per service, with a file per object and a kustomization.yaml, instead of standard output.",
)
@output_option("yaml", "json", "name")
def command(
    files: tuple[Path, ...],
    overrides: dict[str, Any],
    serve_config: Path | None,
    code: Path | None,
    facts: FactSources,
    namespace: str | None,
    accept_risk: bool,
    template_dir: Path | None,
    kuberay: str | None,
    output_dir: Path | None,
    output: str | None,
) -> None:
    """Print the manifests that `deploy` would apply, without a cluster. Equal input gives equal bytes.

    \b
      rayllm-ctl render Qwen/Qwen3-32B --gpu H100-80GB --tp 4 > qwen3-32b.yaml
      rayllm-ctl render -f qwen.yaml | kubectl apply --server-side -f -
      rayllm-ctl render -f qwen.yaml -f llama.yaml --output-dir deploy
      rayllm-ctl render --serve-config config.yaml --code src
    """
    from rayllm_ctl.cli.documents import print_manifests
    from rayllm_ctl.model.kube.kuberay_versions import DEFAULT
    from rayllm_ctl.workflows.render.folders import write_folders
    from rayllm_ctl.workflows.render.service import rendering
    from rayllm_ctl.workflows.render.types import RenderOptions

    if output_dir is not None and output is not None:
        raise UsageError("--output-dir writes YAML files: -o cannot be combined with it", hint="remove -o")
    # Equal input gives equal bytes, on every machine.
    facts = dataclasses.replace(facts, named_only=True)
    options = RenderOptions(facts=facts, accept_risk=accept_risk, template_dir=template_dir, kuberay=kuberay or DEFAULT)
    given = serve_file(serve_config, code, files[0] if files else None, template_dir, overrides, namespace)
    found: dict[str, Rendering] = {}
    rendered = (_rendered(file, overrides, namespace, options) for file in files or (None,))
    for one in [rendering(given, options)] if given else rendered:
        if one.name in found:
            raise UsageError(f"two services or jobs are named {one.name}", hint="change metadata.name of one of them")
        found[one.name] = one
        for note in one.notes:
            click.echo(note, err=True)
    if output_dir is None:
        print_manifests([item for one in found.values() for item in one.manifests], output or "yaml")
        return
    for line in write_folders(output_dir, {name: one.manifests for name, one in found.items()}):
        click.echo(line, err=True)


def _rendered(file: Path | None, overrides: dict[str, Any], namespace: str | None, options: RenderOptions) -> Rendering:
    """The service or batch job of a file and flags."""
    from rayllm_ctl.cli.service import may_be_batch, resolve_service
    from rayllm_ctl.workflows.render.service import rendering

    if file is not None and may_be_batch(file):
        from rayllm_ctl.cli.batch_spec import batch_of_file
        from rayllm_ctl.workflows.render.batch import batch_as_rendering

        batch = batch_of_file(file, overrides, namespace, FLAGS)
        if batch is not None and options.template_dir is not None:
            raise UsageError(f"--template-dir does not apply to a BatchJob ({file})")
        if batch is not None:
            return batch_as_rendering(batch, options)
    return rendering(resolve_service(file, overrides, namespace, FLAGS), options)
