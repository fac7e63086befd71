"""`status --watch`: the output of `status`, again on every change."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from rayllm_ctl.cli.documents import MACHINE_FORMATS, print_line
from rayllm_ctl.cli.kube_flags import KubeFlags
from rayllm_ctl.cli.session import connect, live_view, printer
from rayllm_ctl.console.observe.blocks import BlockDisplay, without_ages
from rayllm_ctl.console.observe.status import service_status, service_table
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.events import Noted
from rayllm_ctl.model.observed.health import Health
from rayllm_ctl.model.text.json_form import to_json
from rayllm_ctl.workflows.observe import status
from rayllm_ctl.workflows.observe.wait import follow


def watch_one(ctx: click.Context, name: str, timeout: float | None, output: str | None, kube: KubeFlags) -> None:
    """Show service `name` until `timeout` seconds have passed, and exit with the code of its last state."""
    cluster = connect(kube)
    namespace = kube.namespace or cluster.namespace
    last: Health | None = None
    with _display(ctx, output, wrap=True) as display:  # hints are to be copied as a whole
        for event in follow(cluster, name, namespace, timeout):
            if isinstance(event, Noted):
                display.tell(event.message)
                continue
            last = event.health
            if output not in MACHINE_FORMATS:
                display.draw_change(service_status(name, namespace, last, printer(ctx)))
            elif display.has_changed(last):
                print_line("ServiceStatus", last, output, name=name, namespace=namespace)
    assert last is not None, "follow raises an error if there was no observation"
    ctx.exit(0 if last.state in status.HEALTHY_STATES else 1)


def watch_all(
    ctx: click.Context, all_namespaces: bool, timeout: float | None, output: str | None, kube: KubeFlags
) -> None:
    """Show the services of a namespace, or of all, until `timeout` seconds have passed."""
    cluster = connect(kube)
    with _display(ctx, output) as display:
        where = None if all_namespaces else kube.namespace or cluster.namespace
        for rows in status.follow_services(cluster, where, timeout):
            if isinstance(rows, Noted):
                display.tell(rows.message)
                continue
            if output not in MACHINE_FORMATS:
                table = service_table(rows, printer(ctx), namespaces=all_namespaces, wide=output == "wide")
                display.draw_change(table)
            elif display.has_changed(rows):
                print_line("ServiceStatusList", {"items": rows}, output)


class _Display(BlockDisplay):
    _seen = ""

    def has_changed(self, data: Any) -> bool:
        """Whether more than ages and the time of the observation has changed since the last call."""
        before, self._seen = self._seen, without_ages(json.dumps(_undated(to_json(data))))
        return before != self._seen


@contextmanager
def _display(ctx: click.Context, output: str | None, wrap: bool = False) -> Iterator[_Display]:
    color = ctx.meta.get("rayllm.color", "auto")
    live = live_view(ctx) and output not in MACHINE_FORMATS
    with _Display(Printer.on(sys.stdout, color), Printer.for_error(color), live, wrap=wrap) as display:
        yield display


def _undated(data: Any) -> Any:
    if isinstance(data, list):
        return [_undated(one) for one in data]
    if isinstance(data, dict):
        return {name: _undated(value) for name, value in data.items() if name != "observedAt"}
    return data
