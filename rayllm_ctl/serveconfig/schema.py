"""What Ray accepts as a Serve configuration file, stated as rules.

Source: Ray 2.60.0, ray/serve/schema.py (ServeDeploySchema) and ray/serve/config.py; what is rejected only when an
application is built (autoscaling, placement groups, resources) is in ray/serve/_private/config.py,
ray/util/placement_group.py and ray/_common/ray_option_utils.py.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from rayllm_ctl.model.text.problems import Path, quoted
from rayllm_ctl.serveconfig.deployment import DEPLOYMENT, LOGGING
from rayllm_ctl.serveconfig.runtimeenv import runtime_env
from rayllm_ctl.serveconfig.shapes import (
    Report,
    anything,
    boolean,
    entries,
    integer,
    items,
    mapping,
    nullable,
    number,
    one_of,
    section,
    text,
)

DEFAULT_APPLICATION = "default"


def check_schema(data: Any) -> Report:
    """All that is wrong with a configuration, and what Ray would ignore of it."""
    report = Report()
    if isinstance(data, dict) and "import_path" in data and "applications" not in data:
        report.reject((), "a configuration of a single application is not supported", "put it below applications: - ")
    else:
        _deploy(data, (), report)
    return report


def _route(value: Any, path: Path, report: Report) -> None:
    text(value, path, report)
    if not isinstance(value, str):
        return
    if not value.startswith("/"):
        report.reject(path, f"{quoted(value)} does not start with /")
    elif len(value) > 1 and value.endswith("/"):
        report.reject(path, f"{quoted(value)} ends with /")
    if "{" in value or "}" in value:
        report.reject(path, f"{quoted(value)} contains a wildcard")


def _import_path(value: Any, path: Path, report: Report) -> None:
    text(value, path, report)
    if not isinstance(value, str):
        return
    separator = ":" if ":" in value else "."
    module, _, name = value.rpartition(separator)
    if value.count(":") > 1 or not module or not name:
        report.reject(path, f"{quoted(value)} is not an import path, such as package.module:application")


def _port(value: Any, path: Path, report: Report) -> None:
    integer(at_least=1, at_most=65535)(value, path, report)


def _with_certificate(value: Any, path: Path, report: Report) -> None:
    for one, other in (("ssl_certfile", "ssl_keyfile"), ("ssl_keyfile", "ssl_certfile")):
        if value.get(one) and not value.get(other):
            report.reject((*path, one), f"requires {other} as well")


_HTTP = section(
    {
        "host": text,
        "port": _port,
        "root_path": text,
        "request_timeout_s": nullable(number()),
        "keep_alive_timeout_s": integer(),
        "ssl_keyfile": nullable(text),
        "ssl_certfile": nullable(text),
        "ssl_keyfile_password": nullable(text),
        "ssl_ca_certs": nullable(text),
    },
    then=_with_certificate,
)

_GRPC = section(
    {
        "port": _port,
        "grpc_servicer_functions": items(text),
        "request_timeout_s": nullable(number()),
        "enable_reflection": boolean,
    }
)


def _application_as_a_whole(value: Any, path: Path, report: Report) -> None:
    if value.get("name") == "":
        report.reject((*path, "name"), "must not be empty")
    for key in ("host", "port"):
        if key in value:
            report.reject((*path, key), "an application has none", f"set http_options.{key}")
    for index, deployment in enumerate(value.get("deployments", [])):
        scaled = deployment.get("num_replicas") == "auto" or deployment.get("autoscaling_config") is not None
        if scaled and value.get("external_scaler_enabled"):
            report.reject((*path, "deployments", index), "cannot be autoscaled with external_scaler_enabled")


_APPLICATION = section(
    {
        "name": text,
        "route_prefix": nullable(_route),
        "import_path": _import_path,
        "runtime_env": runtime_env,
        "host": anything,
        "port": anything,
        "deployments": items(DEPLOYMENT),
        "autoscaling_policy": nullable(mapping),
        "args": mapping,
        "logging_config": nullable(LOGGING),
        "external_scaler_enabled": boolean,
    },
    required=("import_path",),
    then=_application_as_a_whole,
)


def _controller_env(value: Any, path: Path, report: Report) -> None:
    section({"env_vars": entries(text)}, closed=True)(value, path, report)


def _unique(value: Any, path: Path, report: Report) -> None:
    applications = value["applications"]
    for key, default in (("name", DEFAULT_APPLICATION), ("route_prefix", "/")):
        given = [application.get(key, default) for application in applications]
        counts = Counter(given)
        for index, found in enumerate(given):
            if found is not None and counts[found] > 1 and given.index(found) < index:
                unset = "" if key in applications[index] else ", the default,"
                report.reject(
                    (*path, "applications", index, key),
                    f"{quoted(found)}{unset} is that of applications[{given.index(found)}] as well",
                )
    if not applications:
        report.reject((*path, "applications"), "must contain an application: there would be nothing to serve")


_deploy = section(
    {
        "proxy_location": one_of("EveryNode", "HeadOnly", "Disabled"),
        "http_options": _HTTP,
        "grpc_options": _GRPC,
        "controller_options": nullable(section({"runtime_env": nullable(_controller_env)}, closed=True)),
        "logging_config": nullable(LOGGING),
        "tracing_config": nullable(
            section(
                {"enabled": boolean, "exporter_import_path": text, "sampling_ratio": number(at_least=0, at_most=1)},
                closed=True,
            )
        ),
        "applications": items(_APPLICATION),
        "target_capacity": nullable(number(at_least=0, at_most=100)),
    },
    required=("applications",),
    then=_unique,
)
