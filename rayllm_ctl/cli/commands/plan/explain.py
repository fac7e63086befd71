"""`explain`: the meaning of a field of the spec file."""

from __future__ import annotations

import click

from rayllm_ctl.cli.options import FLAGS
from rayllm_ctl.cli.parsing.command import Command


@click.command(cls=Command, short_help="Explain a field of the spec file.")
@click.argument("field", default="")
@click.option("--recursive", is_flag=True, help="Print the names and types of all fields below.")
def command(field: str, recursive: bool) -> None:
    """Explain a field of the spec file, as `kubectl explain` does for Kubernetes objects.

    \b
      rayllm-ctl explain                         # the sections
      rayllm-ctl explain spec.replicas           # a section and its fields
      rayllm-ctl explain spec.replicas.max       # one field
      rayllm-ctl explain spec --recursive        # all of them
      rayllm-ctl explain batchjob.spec.input     # the same for a BatchJob
    """
    from rayllm_ctl.console.plan.explain import explanation, tree
    from rayllm_ctl.specfile.explain import explain, spec_kind

    found, kind = explain(field), spec_kind(field)
    flags = FLAGS if kind == "LLMService" else {}
    click.echo("\n".join(tree(found) if recursive else explanation(found, flags, kind)).rstrip())
