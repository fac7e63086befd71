"""Flags of commands that write to a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rayllm_ctl.cli.values import Duration
from rayllm_ctl.model.spec.ray_options import WAYS

F = TypeVar("F", bound=Callable[..., Any])


def wait_options(function: F) -> F:
    """--wait and --timeout."""
    return waiting_options("Wait until the model answers.")(function)


def waiting_options(help_text: str) -> Callable[[F], F]:
    """--wait, with its help, and --timeout."""
    wait = click.option("--wait/--no-wait", default=True, show_default=True, help=help_text)
    timeout = click.option("--timeout", type=Duration(), help="How long to wait; from the last plan by default.")
    return lambda function: wait(timeout(function))


def dry_run_option(function: F) -> F:
    """--dry-run=none|server."""
    option = click.option(
        "--dry-run",
        type=click.Choice(["none", "server"]),
        default="none",
        show_default=True,
        help="server: let the API server check the change; nothing is written.",
    )
    return option(function)


def manifests_dry_run_option(function: F) -> F:
    """--dry-run=none|client|server."""
    option = click.option(
        "--dry-run",
        type=click.Choice(["none", "client", "server"]),
        default="none",
        show_default=True,
        help="client: print the manifests; server: let the API server check them; nothing is written.",
    )
    return option(function)


def force_option(function: F) -> F:
    """--force-conflicts."""
    return click.option(
        "--force-conflicts", is_flag=True, help="Take over fields that another field manager owns."
    )(function)  # fmt: skip


def upgrade_options(function: F) -> F:
    """--upgrade and --accept-outage."""
    upgrade = click.option(
        "--upgrade",
        type=click.Choice(WAYS),
        default="auto",
        show_default=True,
        help="How to roll out a change. in-place: without a second RayCluster; surge: in place with one extra replica; "
        "new-cluster: with a second RayCluster (blue/green); shrink: blue/green with fewer replicas in the meantime; "
        "auto: choose by change and capacity.",
    )
    accept = click.option(
        "--accept-outage", is_flag=True, help="Proceed even if the service is unavailable for a while."
    )
    return upgrade(accept(function))
