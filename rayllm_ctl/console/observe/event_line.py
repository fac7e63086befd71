"""An event as one line, the same for lines and the live tree."""

from __future__ import annotations

from rayllm_ctl.console.observe.tree import format_replicas
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.events import Applied, Checked, Downloading, Event, Noted, Ready
from rayllm_ctl.model.kube.quantities import format_duration
from rayllm_ctl.model.observed.model_downloads import DownloadState, ModelDownload, format_figures


def format_event(event: Event, style: Printer) -> tuple[str, str]:
    """Label and text of an event other than a look at the service."""
    match event:
        case Applied():
            return "apply", f"{event.kind.lower()}/{event.name} {event.action}{' (dry run)' if event.dry_run else ''}"
        case Checked():
            mark = style.symbol("warning" if event.ok is None else "ok" if event.ok else "error")
            return "check", f"{mark} {event.name}" + (f": {event.detail}" if event.detail else "")
        case Noted():
            return "note", event.message
        case Downloading():
            return "download", format_download(event.download)
        case Ready():
            health = event.health
            count = f"{health.endpoints} address{'' if health.endpoints == 1 else 'es'}"
            replicas = f"{format_replicas(health)} replicas" if health.replicas_verified else "replicas not verified"
            took = format_duration(event.elapsed)
            return "ready", f"{event.name} after {took}: {replicas}, endpoint has {count}"
        case _:
            return "", ""


_STATES = {
    DownloadState.PENDING: "waits for its pod",
    DownloadState.RETRYING: "waits for another attempt",
    DownloadState.VERIFYING: "is verified",
    DownloadState.COMPLETE: "is complete",
    DownloadState.FAILED: "failed",
}


def format_download(download: ModelDownload) -> str:
    """A download for people: "Qwen/Qwen3-8B 4.1 of 16.4 GB (25 %), 310 MB/s, 40s left"."""
    state = _STATES.get(download.state, "")
    attempt = f"attempt {download.attempt}" if download.attempt > 1 else ""
    told = ", ".join(part for part in (state, format_figures(download), attempt) if part)
    return f"{download.model} {told or 'is downloading'}"
