"""Ray Serve's handling of a changed configuration file (serveConfigV2).

KubeRay sends the file to Serve's REST API as soon as its text changes. The rules for restarts are from Ray 2.60:
deploy_utils.py (get_app_code_version: what rebuilds an application), version.py (DeploymentVersion: what restarts or
reconfigures a deployment's replicas), api.py (serve_start: what a running Serve ignores), all in ray/serve/_private.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rayllm_ctl.changes.fields import Difference, FieldPath, field_differences, mapping, mappings
from rayllm_ctl.changes.rollout import DeploymentChange, restart
from rayllm_ctl.model.kube.llm_applications import deployment_options, llm_entries
from rayllm_ctl.model.observed.changes import Consequence, Effect, Running

Judged = tuple[Difference, Effect]
"""A difference (its path starts at the root of the file) and its effect."""

_AT_START = frozenset({"proxy_location", "http_options", "grpc_options", "controller_options", "tracing_config"})
"""Fields that Serve reads at start, and ignores (with a line in its log) while it runs."""

_CODE = frozenset({"import_path", "runtime_env", "args", "autoscaling_policy"})
"""Fields of an application whose change rebuilds it: each of its deployments gets a new version."""

_CODE_OF_DEPLOYMENTS = frozenset({"request_router_config", "deployment_actors"})
"""Options of a deployment with the same effect; and the policy of its autoscaling_config."""

_RESTARTING = frozenset(
    {
        "ray_actor_options", "placement_group_bundles", "placement_group_strategy", "max_replicas_per_node",
        "placement_group_bundle_label_selector", "placement_group_fallback_strategy", "gang_scheduling_config",
    }
)  # fmt: skip
"""Options whose change restarts the replicas of their deployment. All others are applied to running replicas."""


def explain_serve(
    old: Mapping[str, Any], new: Mapping[str, Any], running: Running
) -> tuple[list[Judged], list[Consequence]]:
    """The differences of two configuration files, and their consequences while the Ray cluster stays."""
    judged = [(found, _effect(found)) for found in field_differences(old, new)]
    return judged, list(_consequences(judged, old, new, running))


def _effect(found: Difference) -> Effect:
    first, rest = found.path[0], found.path[1:]
    if first in _AT_START:
        return "not-rolled-out"
    if first != "applications" or not rest or rest == ("order",):
        return "in-place"
    if len(rest) == 1:
        return "created" if found.old is None else "deleted" if found.new is None else "restart"
    if rest[1] in _CODE:
        return "restart"
    if rest[1] in ("host", "port"):
        return "not-rolled-out"
    if rest[1] == "deployments":
        return "restart" if _whole_app(found, rest[2:]) or _one_deployment(found, rest[2:]) else "in-place"
    return "in-place"


def _whole_app(found: Difference, path: FieldPath) -> bool:
    """Whether a difference below `deployments` changes the application's code version.

    That covers the policies of all deployments that have an autoscaling_config, so adding or removing one counts too.
    """
    if len(path) < 2:
        options = {key for side in _options(found) for key in side}
        return bool(options & {*_CODE_OF_DEPLOYMENTS, "autoscaling_config"})
    if path[1] == "autoscaling_config":
        whole = len(path) == 2 and not (isinstance(found.old, Mapping) and isinstance(found.new, Mapping))
        return whole or path[2:3] == ("policy",)
    return path[1] in _CODE_OF_DEPLOYMENTS


def _one_deployment(found: Difference, path: FieldPath) -> bool:
    if len(path) < 2:
        return any(key in _RESTARTING for side in _options(found) for key in side)
    return path[1] in _RESTARTING


def _options(found: Difference) -> Iterator[Mapping[str, Any]]:
    """The options of the deployments that a difference of whole entries adds or removes."""
    for side in (found.old, found.new):
        for item in side if isinstance(side, (list, tuple)) else (side,):
            if isinstance(item, Mapping):
                yield item


def _consequences(
    judged: Iterable[Judged], old: Mapping[str, Any], new: Mapping[str, Any], running: Running
) -> Iterator[Consequence]:
    before, after = _applications(old), _applications(new)
    restarted: dict[str, list[str]] = {}
    reconfigured = False
    for found, effect in judged:
        name = _application(found, new)
        if effect == "restart" and name in after:
            path = found.path[2:]
            whole = path[:1] != ("deployments",) or _whole_app(found, path[1:])
            scope = "" if whole else path[1].strip("[]")
            restarted.setdefault(name, []).append(scope)
        reconfigured = reconfigured or (effect == "in-place" and "user_config" in found.path)
    for name, scopes in restarted.items():
        whole = "" in scopes or name not in before
        parts = [
            part
            for part in _deployments(name, before.get(name, {}), after[name], running)
            if whole or part.name in scopes
        ]
        yield restart(name, parts, running)
    untouched = [name for name in after if name in before and name not in restarted]
    if restarted and untouched:
        yield Consequence("in-place", f"no replica of application {', '.join(untouched)} restarts")
    yield from renamed(old, new, "restart")
    if reconfigured:
        yield Consequence(
            "in-place",
            "Serve passes the new user_config to reconfigure() of every running replica, which applies it in place: "
            "no replica restarts",
        )
    for name in (name for name in before if name not in after):
        yield Consequence("deleted", f"Serve deletes application {name}: its replicas stop", outage=True)
    for name in (name for name in after if name not in before):
        yield Consequence("created", f"Serve deploys application {name} next to the others, on the same Ray cluster")
    ignored = sorted({found.path[0] for found, effect in judged if effect == "not-rolled-out"} & _AT_START)
    if ignored:
        yield Consequence(
            "not-rolled-out",
            f"Serve reads {', '.join(ignored)} when it starts, and ignores the change until a new RayCluster replaces "
            "this one",
        )


def _applications(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(item.get("name", "default")): item for item in mappings(config, "applications")}


def _application(found: Difference, new: Mapping[str, Any]) -> str:
    """The application that a difference is about; of a list without names, by its position."""
    if found.path[0] != "applications" or len(found.path) < 2:
        return ""
    part = found.path[1].strip("[]")
    names = list(_applications(new))
    return names[int(part)] if part.isdigit() and int(part) < len(names) and part not in names else part


def renamed(old: Mapping[str, Any], new: Mapping[str, Any], effect: Effect) -> Iterator[Consequence]:
    """Renamed models: Serve deletes the old deployments while it starts the new ones."""
    before = _applications(old)
    for name, app in _applications(new).items():
        earlier = before.get(name, {})
        gone, added = (
            [one for one in _models(side) if one not in _models(other)]
            for side, other in ((earlier, app), (app, earlier))
        )
        if gone and added:
            yield Consequence(
                effect,
                f"application {name}: deployment {', '.join(added)} replaces {', '.join(gone)}; "
                "clients have to ask for the model by its new name",
                outage=effect == "restart",
            )


def _models(app: Mapping[str, Any]) -> list[str]:
    """The deployments that Ray Serve LLM makes for the models of an application."""
    return [one.deployment for one in llm_entries(app) if one.deployment is not None]


def _deployments(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any], running: Running
) -> Iterator[DeploymentChange]:
    """The deployments of an application as far as they are known, with how many of their replicas run."""
    options, earlier = deployment_options(new), deployment_options(old)
    live = {
        key.removeprefix(f"{name}/"): count for key, count in running.replicas.items() if key.startswith(f"{name}/")
    }
    for one in dict.fromkeys((*live, *options, *_models(new))):
        option = options.get(one, {})
        count = live.get(one)
        yield DeploymentChange(
            one,
            replicas=None if running.unread else _planned(earlier.get(one, option)) if count is None else count,
            engine=one in _models(new) or one in _models(old),
            step=_number(option, "rolling_update_percentage", 0.2),
            surge=_number(option, "max_surge_percent", 0) > 0,
        )


def _number(option: Mapping[str, Any], key: str, default: float) -> float:
    value = option.get(key, default)
    return value if isinstance(value, (int, float)) else default


def _planned(option: Mapping[str, Any]) -> int | None:
    """The minimum number of replicas of a deployment by its options; None if they do not contain it.

    One that scales to zero may have one when it changes: that its replica restarts is then an outage.
    """
    if option.get("num_replicas") == "auto" or "autoscaling_config" in option:
        count = mapping(option, "autoscaling_config").get("min_replicas", 1)
    else:
        count = option.get("num_replicas")
    return max(count, 1) if isinstance(count, int) else None
