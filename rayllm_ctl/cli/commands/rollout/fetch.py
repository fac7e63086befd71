"""`fetch`: download a model into a claim or bucket."""

from __future__ import annotations

from typing import Literal

import click

from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import RESULT_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.storage_flags import MirrorPlace
from rayllm_ctl.cli.values import Duration, KeyValue, ModelName, SecretReference
from rayllm_ctl.cli.wait_flags import force_option, manifests_dry_run_option
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.model_storage import MirrorTarget


@click.command(cls=Command, short_help="Download a model into a claim or bucket.")
@click.argument("model", type=ModelName())
@click.option(
    "--to",
    type=MirrorPlace(),
    required=True,
    metavar="PLACE",
    help="Where to: claim/NAME[/PATH], s3://BUCKET/PATH or gs://BUCKET/PATH.",
)
@click.option(
    "--from", "source", default="hf", show_default=True, metavar="SOURCE",
    help="Where from: hf (the Hugging Face Hub), or s3://, gs:// or https:// of a folder.",
)  # fmt: skip
@click.option("--revision", help="Branch, tag or commit on the Hub.")
@click.option("--hf-token-secret", "token", type=SecretReference(), help="Secret with a Hugging Face token.")
@click.option("--storage-secret", "secret", metavar="NAME", help="Secret with the credentials of the buckets.")
@click.option("--storage-endpoint", "endpoint", metavar="URL", help="Address of a self-hosted S3 service.")
@click.option("--size", metavar="SIZE", help="Create the claim with this size, such as 200Gi; auto: that of the model.")
@click.option("--storage-class", metavar="NAME", help="Create the claim with this StorageClass.")
@click.option("--image", metavar="IMAGE", help="Image of the Job, with Python and huggingface-hub.")
@click.option(
    "--env", type=KeyValue(), multiple=True, metavar="NAME=VALUE",
    help="Variable by which the Hub or a bucket is reached, such as HF_ENDPOINT or HTTPS_PROXY. Can be repeated.",
)  # fmt: skip
@click.option("--verify", is_flag=True, help="Also read the files of a complete folder; damaged ones are replaced.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the model is complete.")
@click.option("--timeout", type=Duration(), default="12h", show_default=True, help="How long to wait.")
@manifests_dry_run_option
@force_option
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def command(
    ctx: click.Context,
    model: str,
    to: MirrorTarget,
    source: str,
    revision: str | None,
    token: SecretKey | None,
    secret: str | None,
    endpoint: str | None,
    size: str | None,
    storage_class: str | None,
    image: str | None,
    env: tuple[tuple[str, str], ...],
    verify: bool,
    wait: bool,
    timeout: float,
    dry_run: Literal["none", "client", "server"],
    force_conflicts: bool,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Download MODEL once, by a Job in the cluster, into a PersistentVolumeClaim or a bucket.

    Each file is verified. A download that was interrupted continues, and one that is complete ends in seconds. Services
    read the files with spec.storage.model. The Job continues when the command ends.

    \b
      rayllm-ctl fetch Qwen/Qwen3-8B --to claim/models -n llm
      rayllm-ctl fetch Qwen/Qwen3-8B --to claim/models --size auto
      rayllm-ctl fetch Qwen/Qwen3-8B --to s3://models/qwen3-8b --storage-secret s3
    """
    from rayllm_ctl.cli.fetch_spec import fetched_service
    from rayllm_ctl.cli.rollout import fetched, print_rendered
    from rayllm_ctl.cli.session import connect, show
    from rayllm_ctl.workflows.rollout.model_storage.fetch import FetchOptions, fetch

    service = fetched_service(
        model, to, source, revision=revision, token=token, secret=secret, endpoint=endpoint, size=size,
        storage_class=storage_class, image=image, env=dict(env), namespace=kube.namespace,
    )  # fmt: skip
    options = FetchOptions(dry_run=dry_run, wait=wait, verify=verify, timeout=timeout, force_conflicts=force_conflicts)
    events = fetch(service, options, lambda: connect(kube))
    if dry_run == "client":
        print_rendered(events, output)
        return
    with show(ctx, output) as display:
        fetched(display, events)
