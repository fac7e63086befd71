"""Ray's dashboard through the API server: Serve's state, and the log files of replicas that failed.

When an engine fails, Serve reports only that it failed; the reason is in the worker's log files on its node, which the
dashboard can read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
from rayllm_ctl.model.observed.serve_logs import SLOW_START, controller_log, replica_logs
from rayllm_ctl.model.observed.serve_state import NO_CONTROLLER, Controller, Deployment, ServeState, read_serve

LOG_LINES = 400
"""Lines from the end of each log file: vLLM's traceback and message fit into half of that."""

LOG_TIMEOUT = 2.0
"""Seconds for one log file. The dashboard asks the replica's node, and waits if the node is gone."""

_SUFFIXES = ("err", "out")
"""An actor's error and output file."""

_CONTROLLER_LINES = 1000
"""Lines from the end of the log of Serve's controller: some hundred for a try, more when a try lasts."""

_PER_DEPLOYMENT = 2
"""Number of failed replicas of one deployment whose logs are read: the newest, and one to compare."""

_FAILED = ("DEPLOY_FAILED", "UNHEALTHY")
_RETRYING = "failed to start"
"""In a deployment's message while Serve retries: the first failure is as informative as the third, minutes later."""

_EXCEPTION = r"^ERROR [^\n]*Exception in Replica\([^\n]*deployment='{}', app='{}'\).*?(?=^[A-Z]+ \d{{4}}-\d\d-\d\d |\Z)"
"""Matches a replica that failed to start in the controller's log, up to the next record."""


def state(dashboard: Dashboard) -> dict[str, Any]:
    """The body of GET /api/serve/applications/ of one Ray cluster, or {"error": text}, with "status" if one came."""
    try:
        return _answer(dashboard)
    except UserError as error:
        status = {"status": error.status} if isinstance(error, ApiError) else {}
        return {"error": unread(error), **status}


def read_state(dashboard: Dashboard, *, started: bool = True) -> ServeState:
    """Serve's state on one Ray cluster. Raises UserError if it is unknown.

    started: Serve has run there, so a response without its controller is not conclusive.
    """
    return known_state(_answer(dashboard), started=started)


def known_state(answer: Mapping[str, Any], *, started: bool = True) -> ServeState:
    """The same for an answer that is there already."""
    found = read_serve(answer)
    if found.error:
        raise UserError(found.error)
    if started and found.no_controller:
        raise UserError(NO_CONTROLLER)
    return found


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


def failed_replica_logs(dashboard: Dashboard, serve: ServeState, tasks: Tasks) -> dict[str, str]:
    """The ends of the logs of failed replicas: "<pod>/replica-<app>.<deployment>-<actor>.log" -> text.

    During a slow retry, also Serve's records of the last try: "<head>/controller-<app>.<deployment>.log".
    Empty if nothing has failed. Unreadable logs are skipped.
    """
    failed = [one for one in serve.deployments if one.status in _FAILED or _RETRYING in one.message or _is_slow(one)]
    if not failed:
        return {}
    actors = _recent(failed)
    if not actors:
        # Older versions of Ray do not include stopped replicas in this response; the list of actors has them.
        actors = _dead(dashboard, failed)
    wanted = {
        f"{serve.pods.get(node, node[:8])}/{replica_logs(app, deployment)}{actor[:8]}.log": actor
        for app, deployment, actor, node in actors
    }
    said = tasks.submit(_said_before, dashboard, serve.controller, failed)
    read = {
        name: [tasks.submit(_log, dashboard, actor, suffix) for suffix in _SUFFIXES] for name, actor in wanted.items()
    }
    texts = {name: "".join(part.result() for part in parts) for name, parts in read.items()}
    return {name: text for name, text in texts.items() if text} | said.result()


def _said_before(dashboard: Dashboard, controller: Controller, failed: list[Deployment]) -> dict[str, str]:
    """Log records of Serve's controller on the last failed replica of each deployment whose message is about the next
    one: a constructor's exception is in no log of the replica."""
    slow = [one for one in failed if _is_slow(one)]
    file = controller.log_file.lstrip("/")
    if not slow or not file:
        return {}
    query = [("node_id", controller.node), ("filename", file), ("lines", str(_CONTROLLER_LINES))]
    try:
        log = dashboard.text("/api/v0/logs/file", query=query, doing="read the log of Serve's controller")
    except UserError:
        return {}
    found = {}
    for one in slow:
        texts = re.findall(_EXCEPTION.format(re.escape(one.name), re.escape(one.app)), log, re.S | re.M)
        if texts:
            found[f"{controller.pod or 'head'}/{controller_log(one.app, one.name)}"] = texts[-1]
    return found


def _is_slow(deployment: Deployment) -> bool:
    """Whether a replica starts slowly after another has failed."""
    return SLOW_START in deployment.message and bool(deployment.dead)


def _recent(failed: list[Deployment]) -> list[tuple[str, str, str, str]]:
    found = []
    for one in failed:
        # If a deployment does not start, live actors are the next try; if it is unhealthy, they are the unhealthy ones.
        sick = one.status == "UNHEALTHY" and not one.lost
        known = [replica for replica in (*one.dead, *(one.replicas if sick or not one.dead else ())) if replica.actor]
        known.sort(key=lambda replica: replica.started.timestamp() if replica.started else 0.0)
        found += [(one.app, one.name, replica.actor, replica.node) for replica in known[-_PER_DEPLOYMENT:]]
    return found


def _dead(dashboard: Dashboard, failed: list[Deployment]) -> list[tuple[str, str, str, str]]:
    only_dead = [("filter_keys", "state"), ("filter_predicates", "="), ("filter_values", "DEAD")]
    try:
        answer = dashboard.json("/api/v0/actors", query=[("detail", "1"), *only_dead], doing="list Ray's actors")
    except UserError:
        return []
    rows = ((answer.get("data") or {}).get("result") or {}).get("result") or []
    found = []
    for one in failed:
        mine = [row for row in rows if str(row.get("name", "")).startswith(f"SERVE_REPLICA::{one.app}#{one.name}#")]
        found += [
            (one.app, one.name, str(row["actor_id"]), str(row.get("node_id") or "")) for row in mine[-_PER_DEPLOYMENT:]
        ]
    return found


def _log(dashboard: Dashboard, actor: str, suffix: str) -> str:
    """The end of one of an actor's log files; empty if it cannot be read."""
    query = [("actor_id", actor), ("suffix", suffix), ("lines", str(LOG_LINES)), ("filter_ansi_code", "true")]
    try:
        return dashboard.text("/api/v0/logs/file", query=query, doing=f"read the log of {actor}", timeout=LOG_TIMEOUT)
    except UserError:
        return ""
