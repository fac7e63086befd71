"""An event as one line, the same for lines and the live tree."""

from __future__ import annotations

from rayllm_ctl.console.observe.tree import format_replicas
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.events import Applied, Checked, Noted, Observed, Planned, Ready
from rayllm_ctl.model.kube.quantities import format_duration


def format_event(event: Applied | Checked | Noted | Ready | Observed | Planned, style: Printer) -> tuple[str, str]:
    """Label and text of an event other than a look at the service."""
    match event:
        case Applied():
            return "apply", f"{event.kind.lower()}/{event.name} {event.action}{' (dry run)' if event.dry_run else ''}"
        case Checked():
            mark = style.symbol("warning" if event.ok is None else "ok" if event.ok else "error")
            return "check", f"{mark} {event.name}" + (f": {event.detail}" if event.detail else "")
        case Noted():
            return "note", event.message
        case Ready():
            health = event.health
            count = f"{health.endpoints} address{'' if health.endpoints == 1 else 'es'}"
            replicas = f"{format_replicas(health)} replicas" if health.replicas_verified else "replicas not verified"
            took = format_duration(event.elapsed)
            return "ready", f"{event.name} after {took}: {replicas}, endpoint has {count}"
        case _:
            return "", ""
