"""Options of Ray itself, and of KubeRay's replacement of a changed Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.quantities import parse_quantity
from rayllm_ctl.model.spec.form import QUANTITY, SECONDS, SecretKey

AuthenticationMode = Literal["none", "token"]
LogEncoding = Literal["TEXT", "JSON"]
UpgradeStrategy = Literal["NewCluster", "NewClusterWithIncrementalUpgrade", "None"]

INCREMENTAL: UpgradeStrategy = "NewClusterWithIncrementalUpgrade"
"""The strategy for which KubeRay moves traffic through a Gateway."""


Way = Literal["auto", "in-place", "surge", "shrink", "new-cluster"]
"""How to roll out a change:

auto         as KubeRay and Serve do it; surge to avoid an outage if the nodes have capacity; shrink if they do not have
             capacity for a second RayCluster
in-place     without a second RayCluster
surge        with one extra replica of each model while its replicas are replaced
shrink       with a second RayCluster, and fewer replicas until it has taken over
new-cluster  with a second RayCluster next to all of the first, even if replicas could be replaced on the same one
"""

WAYS: tuple[Way, ...] = get_args(Way)

NO_SHRINK = "the controller takes no replicas away; a second RayCluster that does not fit needs consent or new-cluster"
"""Why an LLMService in the cluster cannot ask for what the command line does in the foreground."""


@dataclass(frozen=True)
class Authentication:
    """Whether Ray's own ports (dashboard, jobs, client, GCS) ask for a token. The OpenAI port does not."""

    mode: Annotated[
        AuthenticationMode | None,
        "token, the default: every client of Ray must send a token.",
    ] = None
    secret_name: Annotated[
        str | None, "Secret with the token in its key auth_token; by default KubeRay creates one per Ray cluster."
    ] = None


@dataclass(frozen=True)
class FaultTolerance:
    """Where the head keeps the state of the cluster (GCS), so that workers keep serving while a lost head restarts."""

    redis_address: Annotated[str, "Address of a Redis that outlives the head: redis:6379, rediss://host:6379."]
    password_secret: Annotated[SecretKey | None, "Secret with the password of the Redis."] = None


@dataclass(frozen=True)
class RayLogging:
    """How Ray writes the log files of its processes."""

    encoding: Annotated[LogEncoding | None, "TEXT, or JSON with one object per line."] = None
    rotate_bytes: Annotated[str | None, QUANTITY, "Size at which a log file is rotated: 512Mi."] = None
    backup_count: Annotated[int | None, "Number of rotated files that are kept of each log."] = None


@dataclass(frozen=True)
class RayOptions:
    """Settings of the Ray cluster."""

    authentication: Authentication = Authentication()
    fault_tolerance: Annotated[FaultTolerance | None, "Survive the loss of the head, with a Redis."] = None
    logging: RayLogging = RayLogging()
    idle_timeout: Annotated[
        float | None, SECONDS, "How long a worker without a replica is kept before its pod is removed; 60s by default."
    ] = None


@dataclass(frozen=True)
class Upgrade:
    """How KubeRay rolls out a change that needs another Ray cluster, such as a new image.

    Intervals are seconds.
    """

    strategy: Annotated[
        UpgradeStrategy,
        "NewCluster: a complete second cluster, then all traffic at once. NewClusterWithIncrementalUpgrade: step by "
        "step, through a Gateway. None: not at all.",
    ] = "NewCluster"
    max_surge_percent: Annotated[int | None, "Capacity that the new cluster may add at once; 100 by default."] = None
    step_size_percent: Annotated[int | None, "Traffic that moves to the new cluster at each step."] = None
    interval: Annotated[float | None, SECONDS, "Time between two steps."] = None
    gateway_class_name: Annotated[str | None, "GatewayClass of the Gateway that splits the traffic."] = None
    deletion_delay: Annotated[
        float | None, SECONDS, "How long the old cluster is kept after the switch; 60s by default."
    ] = None


def logging_environment(logging: RayLogging) -> Mapping[str, str]:
    """The environment variables by which Ray takes these settings up (Ray 2.60, _private/node.py, ray_constants.py)."""
    size = None if logging.rotate_bytes is None else int(parse_quantity(logging.rotate_bytes))
    settings = {
        "RAY_LOGGING_CONFIG_ENCODING": logging.encoding,
        "RAY_ROTATION_BACKUP_COUNT": logging.backup_count,
        "RAY_ROTATION_MAX_BYTES": size,
    }
    return {name: str(value) for name, value in settings.items() if value is not None}
