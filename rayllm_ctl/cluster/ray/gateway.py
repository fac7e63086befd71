"""The gateway of a live service, from its RayService."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.kube.cluster_spec import cluster_spec
from rayllm_ctl.model.kube.names import INGRESS_BUILDER
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.spec.gateway import KEYS_VOLUME
from rayllm_ctl.serveconfig.applied import applied_config_if_readable, config_text


@dataclass(frozen=True)
class LiveGateway:
    """config: the gateway's part of the ingress' user_config. models: ids of the models and adapters behind it.

    deployments: application and deployment of each model. keys_secret: the Secret with its keys, if required.
    """

    config: Mapping[str, Any]
    models: tuple[str, ...]
    deployments: tuple[tuple[str, str], ...]
    keys_secret: str | None


def gateway_of(rayservice: Object) -> LiveGateway | None:
    """The gateway in a RayService; None if it has none."""
    if INGRESS_BUILDER not in config_text(rayservice):
        return None  # most services: avoids parsing YAML
    config_of_serve = applied_config_if_readable(rayservice)
    if config_of_serve is None:
        return None
    try:
        application = next(
            candidate for candidate in config_of_serve["applications"] if candidate["import_path"] == INGRESS_BUILDER
        )
        config: dict[str, Any] = application["deployments"][0]["user_config"]
        gateway = config["gateway"]
        models = [described for model in config["models"] for described in (model, *(model.get("adapters") or ()))]
        names = tuple(str(described["id"]) for described in models)
        deployments = tuple((str(model["application"]), str(model["deployment"])) for model in config["models"])
    except (ValueError, TypeError, KeyError, IndexError, StopIteration):
        return None
    if gateway is None:
        return None
    return LiveGateway(gateway, names, deployments, _keys_secret(rayservice) if gateway.get("keys") else None)


def _keys_secret(rayservice: Object) -> str | None:
    groups = cluster_spec(rayservice).get("workerGroupSpecs") or ()
    for group in groups:
        for volume in group["template"]["spec"].get("volumes") or ():
            if volume.get("name") == KEYS_VOLUME:
                return str(volume["secret"]["secretName"])
    return None
