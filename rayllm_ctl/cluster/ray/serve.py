"""Ray's dashboard through the API server: Serve's state, and the log files of replicas that failed.

When an engine fails, Serve says only that it failed; the reason stands in the worker's log files on its node, which the
dashboard can read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.cluster.api.errors import (
    ApiError,
    ForbiddenError,
    UnauthorizedError,
    UnreachableError,
    short_reason,
)
from rayllm_ctl.cluster.api.parallel import Tasks
from rayllm_ctl.cluster.ray.dashboard import TIMEOUT, Dashboard
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.observed.serve_answer import NO_CONTROLLER, lacks_controller
from rayllm_ctl.model.observed.serve_logs import SLOW_START, controller_log, replica_logs

LOG_LINES = 400
"""Lines from the end of each log file: vLLM's traceback and its message fit into half of that."""

LOG_TIMEOUT = 2.0
"""Seconds for one log file. The dashboard asks the replica's node, and waits for it where that is gone."""

_SUFFIXES = ("err", "out")
"""An actor's error and output file."""

_CONTROLLER_LINES = 1000
"""Lines from the end of the log of Serve's controller: some hundred for a try, more when a try lasts."""

_PER_DEPLOYMENT = 2
"""Failed replicas of one deployment whose logs are read: the newest, and one to compare."""

_FAILED = ("DEPLOY_FAILED", "UNHEALTHY")
_RETRYING = "failed to start"
"""In a deployment's message while Serve tries again: the first failure is as telling as the third, minutes later."""

_EXCEPTION = r"^ERROR [^\n]*Exception in Replica\([^\n]*deployment='{}', app='{}'\).*?(?=^[A-Z]+ \d{{4}}-\d\d-\d\d |\Z)"
"""In the controller's log, a replica that failed to start, up to the next record."""


def state(dashboard: Dashboard) -> dict[str, Any]:
    """The body of GET /api/serve/applications/ of one Ray cluster, or {"error": text}, with "status" if one came."""
    try:
        return _answer(dashboard)
    except UserError as error:
        status = {"status": error.status} if isinstance(error, ApiError) else {}
        return {"error": unread(error), **status}


def read_state(dashboard: Dashboard, *, started: bool = True) -> dict[str, Any]:
    """The body of GET /api/serve/applications/ of one Ray cluster. Raises UserError where it is unknown.

    started: Serve has run there, so that an answer without its controller says nothing.
    """
    answer = _answer(dashboard)
    if started and lacks_controller(answer):
        raise UserError(NO_CONTROLLER)
    return answer


def _answer(dashboard: Dashboard) -> dict[str, Any]:
    return dashboard.json("/api/serve/applications/", doing="ask Serve for its state")


def unread(error: UserError) -> str:
    """Why Serve's state could not be read."""
    if isinstance(error, UnauthorizedError):
        return "Ray's dashboard did not accept the token"
    if isinstance(error, ApiError) and not isinstance(error, ForbiddenError):
        return error.server_message or error.message
    if isinstance(error, UnreachableError) and error.silent:
        return f"no answer within {TIMEOUT:g} s"
    return short_reason(error)


def failed_replica_logs(dashboard: Dashboard, answer: Mapping[str, Any], tasks: Tasks) -> dict[str, str]:
    """The ends of the logs of failed replicas: "<pod>/replica-<app>.<deployment>-<actor>.log" -> text.

    While the next try is slow, also what Serve said of the last: "<head>/controller-<app>.<deployment>.log".
    answer: what `state` returned. Empty where nothing has failed. What cannot be read is left out.
    """
    failed = list(_failed_deployments(answer))
    if not failed:
        return {}
    nodes = dict(_nodes(answer))
    actors = _recent(failed)
    if not actors:
        # Older versions of Ray do not keep stopped replicas in this answer; the list of actors has them.
        actors = _dead(dashboard, failed)
    wanted = {
        f"{nodes.get(node, node[:8])}/{replica_logs(app, deployment)}{actor[:8]}.log": actor
        for app, deployment, actor, node in actors
    }
    said = tasks.submit(_said_before, dashboard, answer, failed)
    read = {
        name: [tasks.submit(_log, dashboard, actor, suffix) for suffix in _SUFFIXES] for name, actor in wanted.items()
    }
    texts = {name: "".join(part.result() for part in parts) for name, parts in read.items()}
    return {name: text for name, text in texts.items() if text} | said.result()


def _said_before(
    dashboard: Dashboard, answer: Mapping[str, Any], failed: list[tuple[str, str, Mapping[str, Any]]]
) -> dict[str, str]:
    """What Serve's controller logged of the last replica of each deployment that failed to start, where its message is
    about the next one: a constructor's exception is in no log of the replica."""
    slow = [(app, name) for app, name, deployment in failed if _is_slow(deployment)]
    controller = answer.get("controller_info") or {}
    file = str(controller.get("log_file_path") or "").lstrip("/")
    if not slow or not file:
        return {}
    query = [("node_id", str(controller.get("node_id"))), ("filename", file), ("lines", str(_CONTROLLER_LINES))]
    try:
        log = dashboard.text("/api/v0/logs/file", query=query, doing="read the log of Serve's controller")
    except UserError:
        return {}
    pod = str(controller.get("node_instance_id") or "head")
    found = {}
    for app, name in slow:
        texts = re.findall(_EXCEPTION.format(re.escape(name), re.escape(app)), log, re.S | re.M)
        if texts:
            found[f"{pod}/{controller_log(app, name)}"] = texts[-1]
    return found


def _failed_deployments(answer: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for app, application in (answer.get("applications") or {}).items():
        for name, deployment in (application.get("deployments") or {}).items():
            retrying = _RETRYING in str(deployment.get("message", "")) or _is_slow(deployment)
            if deployment.get("status") in _FAILED or retrying:
                yield app, name, deployment


def _is_slow(deployment: Mapping[str, Any]) -> bool:
    """Whether a replica starts slowly after another has ended."""
    return SLOW_START in str(deployment.get("message", "")) and bool(deployment.get("recent_dead_replicas"))


def _nodes(value: Any) -> Iterator[tuple[str, str]]:
    """Ray node and pod, from every part of Serve's answer that knows both (KubeRay calls an instance as its pod)."""
    if isinstance(value, Mapping):
        if value.get("node_id") and value.get("node_instance_id"):
            yield str(value["node_id"]), str(value["node_instance_id"])
        for part in value.values():
            yield from _nodes(part)
    elif isinstance(value, list):
        for part in value:
            yield from _nodes(part)


def _recent(failed: list[tuple[str, str, Mapping[str, Any]]]) -> list[tuple[str, str, str, str]]:
    found = []
    for app, name, deployment in failed:
        dead = deployment.get("recent_dead_replicas") or []
        # Of a deployment that does not start, those that live are the next try; of an unhealthy one they are the sick.
        alive = deployment.get("replicas") or [] if deployment.get("status") == "UNHEALTHY" or not dead else []
        known = [replica for replica in (*dead, *alive) if replica.get("actor_id")]
        known.sort(key=lambda replica: float(replica.get("start_time_s") or 0))
        for replica in known[-_PER_DEPLOYMENT:]:
            found.append((app, name, str(replica["actor_id"]), str(replica.get("node_id") or "")))
    return found


def _dead(dashboard: Dashboard, failed: list[tuple[str, str, Mapping[str, Any]]]) -> list[tuple[str, str, str, str]]:
    only_dead = [("filter_keys", "state"), ("filter_predicates", "="), ("filter_values", "DEAD")]
    try:
        answer = dashboard.json("/api/v0/actors", query=[("detail", "1"), *only_dead], doing="list Ray's actors")
    except UserError:
        return []
    rows = ((answer.get("data") or {}).get("result") or {}).get("result") or []
    found = []
    for app, name, _ in failed:
        mine = [row for row in rows if str(row.get("name", "")).startswith(f"SERVE_REPLICA::{app}#{name}#")]
        found += [(app, name, str(row["actor_id"]), str(row.get("node_id") or "")) for row in mine[-_PER_DEPLOYMENT:]]
    return found


def _log(dashboard: Dashboard, actor: str, suffix: str) -> str:
    """The end of one of an actor's log files; empty where it cannot be read."""
    query = [("actor_id", actor), ("suffix", suffix), ("lines", str(LOG_LINES)), ("filter_ansi_code", "true")]
    try:
        return dashboard.text("/api/v0/logs/file", query=query, doing=f"read the log of {actor}", timeout=LOG_TIMEOUT)
    except UserError:
        return ""
