"""What runs, for a person and for a program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from e2e.cluster import layout, state
from e2e.cluster.api import Api
from e2e.cluster.errors import RigError

_UP_HINT = "python -m e2e.cluster up"


def is_up() -> bool:
    """Whether a cluster is up with all its processes and an API server that answers."""
    return bool(facts()["up"])


def facts() -> dict[str, Any]:
    """The state as plain data: up, options, kubeconfig, processes (name, pid, alive, log) and nodes."""
    run = layout.current_run()
    record = state.load(run.state)
    if record is None:
        return {"up": False, "processes": [], "nodes": []}
    answering = not record.dead() and record.ready and Api(run.pki).ready()
    return {
        "up": answering,
        "options": record.options.flags(),
        "kubeconfig": str(run.kubeconfig),
        "processes": [
            {"name": process.name, "pid": process.pid, "alive": process.name not in record.dead(), "log": process.log}
            for process in record.processes
        ],
        "nodes": _nodes(Api(run.pki)) if answering else [],
    }


def as_json() -> str:
    """`facts` as JSON."""
    return json.dumps(facts(), indent=2)


def as_table() -> str:
    """`facts` for a person."""
    known = facts()
    if not known["processes"]:
        return f"no cluster is up (start one: {_UP_HINT})"
    lines = [
        f"cluster     {'up' if known['up'] else 'NOT WORKING'}  {known['options']}",
        f"kubeconfig  {known['kubeconfig']}",
        "",
    ]
    rows = [("NODE", "READY", "CPU", "MEMORY", "GPU", "")]
    rows += [
        (n["name"], "yes" if n["ready"] else "NO", n["cpu"], n["memory"], n["gpu"], "simulated" * n["simulated"])
        for n in known["nodes"]
    ]
    rows += [("", "", "", "", "", ""), ("PROCESS", "PID", "STATE", "", "", "")]
    rows += [(p["name"], str(p["pid"]), "runs" if p["alive"] else "DEAD", "", "", "") for p in known["processes"]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def kubeconfig() -> Path:
    """The administrator's kubeconfig; RigError if there is no cluster."""
    path = layout.current_run().kubeconfig
    if not path.exists():
        raise RigError("no cluster is up", _UP_HINT)
    return path


def log(component: str) -> Path:
    """The log of a component; RigError that lists the components if there is none of that name."""
    logs = layout.current_run().logs
    if not logs.exists():
        logs = layout.failed_logs()
    names = sorted(file.stem for file in logs.glob("*.log"))
    if component not in names:
        said = f"no component {component!r}" if component else "which component?"
        raise RigError(f"{said} There are: {', '.join(names) or 'none (no cluster is up)'}")
    return logs / f"{component}.log"


def _nodes(api: Api) -> list[dict[str, Any]]:
    rows = []
    for node in api.get("/api/v1/nodes")["items"]:
        status = node["status"]
        conditions = status.get("conditions", [])
        capacity = status.get("capacity", {})
        rows.append(
            {
                "name": node["metadata"]["name"],
                "ready": any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
                "cpu": capacity.get("cpu", ""),
                "memory": capacity.get("memory", ""),
                "gpu": capacity.get("nvidia.com/gpu", ""),
                "simulated": layout.REAL_NODE_LABEL not in node["metadata"].get("labels", {}),
            }
        )
    return rows
