"""Commands of `batch` for jobs that were submitted."""

from __future__ import annotations

from pathlib import Path

import click

from rayllm_ctl.cli.commands.batch.follow import follow_to_end, show
from rayllm_ctl.cli.kube_flags import KubeFlags, kube_options
from rayllm_ctl.cli.options import NAMED_TABLE_FORMATS, RESULT_FORMATS, STREAM_FORMATS, output_option
from rayllm_ctl.cli.parsing.command import Command
from rayllm_ctl.cli.values import Duration

_KIND = "RayJob"


@click.command(cls=Command, name="list", short_help="List the batch jobs.")
@click.option("-A", "--all-namespaces", is_flag=True, help="List the jobs of all namespaces.")
@output_option(*NAMED_TABLE_FORMATS)
@kube_options
@click.pass_context
def list_jobs(ctx: click.Context, all_namespaces: bool, output: str | None, kube: KubeFlags) -> None:
    """List the batch jobs of the namespace: rows, errors, rate, time left.

    \b
      rayllm-ctl batch list -n llm
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, object_name, print_list
    from rayllm_ctl.cli.session import connect, printer
    from rayllm_ctl.workflows.batch.status import all_jobs

    cluster = connect(kube)
    rows = all_jobs(cluster, None if all_namespaces else kube.namespace or cluster.namespace)
    if output == "name":
        for row in rows:
            click.echo(object_name(_KIND, row.name))
    elif output in MACHINE_FORMATS:
        print_list("BatchJobStatusList", rows, output)
    else:
        from rayllm_ctl.console.batch.status import job_table

        style = printer(ctx)
        style.text(job_table(rows, style, namespaces=all_namespaces, wide=output == "wide"))


@click.command(cls=Command, name="status", short_help="Show the state of a job, with causes.")
@click.argument("name")
@output_option(*NAMED_TABLE_FORMATS)
@kube_options
@click.pass_context
def status(ctx: click.Context, name: str, output: str | None, kube: KubeFlags) -> None:
    """Show the state of batch job NAME, its causes and next steps: rows, errors, rate, time left, tokens, causes, pods.

    Exits with 1 when it failed, has more row errors than allowed, is Stuck, Unknown or not found.

    \b
      rayllm-ctl batch status summaries -n llm
    """
    from rayllm_ctl.cli.documents import MACHINE_FORMATS, object_name, print_document
    from rayllm_ctl.cli.session import connect, printer
    from rayllm_ctl.workflows.batch.status import HEALTHY_JOB_STATES, one_job

    cluster = connect(kube)
    row = one_job(cluster, name, kube.namespace or cluster.namespace)
    if output == "name":
        click.echo(object_name(_KIND, name))
    elif output in MACHINE_FORMATS:
        print_document("BatchJobStatus", row.health, output, name=name, namespace=row.namespace)
    else:
        from rayllm_ctl.console.batch.status import job_status

        style = printer(ctx)
        style.text(job_status(name, row.namespace, row.health, style))
    ctx.exit(0 if row.health.state in HEALTHY_JOB_STATES else 1)


@click.command(cls=Command, name="watch", short_help="Follow a job until it ends.")
@click.argument("name")
@click.option("--timeout", type=Duration(), help="Stop after this long (default: never).")
@output_option(*STREAM_FORMATS)
@kube_options
@click.pass_context
def watch(ctx: click.Context, name: str, timeout: float | None, output: str | None, kube: KubeFlags) -> None:
    """Follow batch job NAME until it ends: rows done, errors, rate, time left. Ctrl-C leaves the job alone.

    \b
    Exit codes:
      0  every row is answered, or at most the allowed number have an error
      1  more rows have an error
      3  --timeout has passed; the job keeps running
      7  the job failed, or cannot run
      8  the input was rejected

    \b
      rayllm-ctl batch watch summaries -n llm
    """
    from rayllm_ctl.cli.session import connect

    cluster = connect(kube)
    ctx.exit(follow_to_end(ctx, cluster, name, kube.namespace or cluster.namespace, timeout, output))


@click.command(cls=Command, name="logs", short_help="Print the log of a job's driver.")
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Stream new lines until the driver ends.")
@kube_options
def logs(name: str, follow: bool, kube: KubeFlags) -> None:
    """Print the log of the driver of batch job NAME: its own lines, and those of Ray and vLLM.

    \b
      rayllm-ctl batch logs summaries -n llm -f
    """
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.batch.logs import driver_log

    cluster = connect(kube)
    for piece in driver_log(cluster, name, kube.namespace or cluster.namespace, follow=follow):
        click.echo(piece, nl=False)


@click.command(cls=Command, name="cancel", short_help="Delete a job and wait until its pods are gone.")
@click.argument("name")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the pods are gone.")
@click.option("--timeout", type=Duration(), default="5m", show_default=True, help="How long to wait.")
@click.option("--ignore-not-found", is_flag=True, help="Succeed when there is no such job.")
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def cancel(
    ctx: click.Context,
    name: str,
    wait: bool,
    timeout: float,
    ignore_not_found: bool,
    output: str | None,
    kube: KubeFlags,
) -> None:
    """Delete batch job NAME and the objects applied with it, and wait until its pods are gone.

    Finished rows stay in the output: the same job, submitted again, continues with the missing rows.

    \b
      rayllm-ctl batch cancel summaries -n llm
    """
    from rayllm_ctl.cli.interrupted import interruptible
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.batch.end import cancel_job as end

    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    events = end(cluster, name, namespace, wait=wait, timeout=timeout, ignore_not_found=ignore_not_found)
    again = f"rayllm-ctl batch cancel {name} -n {namespace}    # wait until it is gone"
    with interruptible(f"the deletion of {name} continues", again):
        show(ctx, events, output)


@click.command(cls=Command, name="resume", short_help="Run a finished job again for the missing rows.")
@click.argument("name")
@click.option("--timeout", type=Duration(), default="5m", show_default=True, help="How long to wait for its old pods.")
@output_option(*RESULT_FORMATS)
@kube_options
@click.pass_context
def resume(ctx: click.Context, name: str, timeout: float, output: str | None, kube: KubeFlags) -> None:
    """Run batch job NAME again after it failed or finished. It computes only the rows missing from the output.

    KubeRay does not run a RayJob twice, so it is replaced by an identical one. Rows with an error are not tried
    again.

    \b
      rayllm-ctl batch resume summaries -n llm
    """
    from rayllm_ctl.cli.interrupted import interruptible
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.batch.end import resume_job as run_again

    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    with interruptible(
        f"{name} may have been deleted and not yet created again",
        f"rayllm-ctl batch resume {name} -n {namespace}",
        "if the job no longer exists: run its rayllm-ctl batch submit again",
    ):
        show(ctx, run_again(cluster, name, namespace, timeout=timeout), output)


@click.command(cls=Command, name="head", short_help="Print the first rows of the output.")
@click.argument("name")
@click.option("--rows", type=click.IntRange(1, 100_000), default=10, show_default=True, help="Number of rows.")
@kube_options
def head(name: str, rows: int, kube: KubeFlags) -> None:
    """Print the first finished rows of the output of batch job NAME as JSON Lines.

    Reads s3:// and gs:// from this machine, with the credentials of its environment; this requires the package pyarrow.

    \b
      rayllm-ctl batch head summaries -n llm --rows 3
    """
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.batch.output import first_rows, output_of

    cluster = connect(kube)
    for row in first_rows(output_of(cluster, name, kube.namespace or cluster.namespace), rows):
        click.echo(row)


@click.command(cls=Command, name="download", short_help="Copy the output to this machine.")
@click.argument("name")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@kube_options
def download(name: str, folder: Path, kube: KubeFlags) -> None:
    """Copy the finished output of batch job NAME into DIR. Run it again to copy new parts.

    Reads s3:// and gs:// from this machine, with the credentials of its environment; this requires the package pyarrow.

    \b
      rayllm-ctl batch download summaries ./answers -n llm
    """
    from rayllm_ctl.cli.session import connect
    from rayllm_ctl.workflows.batch.output import download_output as copy
    from rayllm_ctl.workflows.batch.output import output_of

    cluster = connect(kube)
    found = output_of(cluster, name, kube.namespace or cluster.namespace)
    count = 0
    for part in copy(found, folder):
        click.echo(str(folder / part))
        count += 1
    click.echo(f"{count} part{'' if count == 1 else 's'} copied from {found.path}", err=True)


JOB_COMMANDS: dict[str, click.Command] = {
    str(one.name): one for one in (list_jobs, status, watch, logs, head, download, cancel, resume)
}
