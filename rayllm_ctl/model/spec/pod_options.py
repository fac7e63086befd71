"""Options of head and worker pods, by the names of Kubernetes' own fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class ObjectName:
    """An object of the service's namespace, by its name."""

    name: Annotated[str, "Name of the object."]


@dataclass(frozen=True)
class KeyOf:
    """One key of a Secret or ConfigMap of the service's namespace."""

    name: Annotated[str, "Name of the object."]
    key: Annotated[str, "Key whose value is taken."]
    optional: Annotated[bool, "Start the pod even if the object or its key does not exist."] = False


@dataclass(frozen=True)
class FieldOf:
    """A field of the pod itself."""

    field_path: Annotated[str, "metadata.name, status.podIP, metadata.labels['app'], ..."]


@dataclass(frozen=True)
class ValueFrom:
    """Where the value of an environment variable comes from: exactly one source."""

    secret_key_ref: Annotated[KeyOf | None, "Key of a Secret."] = None
    config_map_key_ref: Annotated[KeyOf | None, "Key of a ConfigMap."] = None
    field_ref: Annotated[FieldOf | None, "Field of the pod."] = None


@dataclass(frozen=True)
class EnvironmentVariable:
    """A variable of the Ray container: a value, or where it comes from."""

    name: Annotated[str, "Name of the variable."]
    value: Annotated[str | None, "The value itself. No secrets."] = None
    value_from: Annotated[ValueFrom | None, "Where the value comes from."] = None


@dataclass(frozen=True)
class AllOf:
    """All keys of a Secret or ConfigMap of the service's namespace."""

    name: Annotated[str, "Name of the object."]
    optional: Annotated[bool, "Start the pod even if the object does not exist."] = False


@dataclass(frozen=True)
class EnvironmentSource:
    """An object whose keys become variables of the Ray container: exactly one."""

    prefix: Annotated[str | None, "Put before each key."] = None
    secret_ref: Annotated[AllOf | None, "A Secret."] = None
    config_map_ref: Annotated[AllOf | None, "A ConfigMap."] = None


@dataclass(frozen=True)
class PodOptions:
    """What the pods have beyond what the plan gives them."""

    service_account_name: Annotated[str | None, "ServiceAccount of the pods; it must exist."] = None
    image_pull_secrets: Annotated[tuple[ObjectName, ...], "Secrets with credentials of image registries."] = ()
    labels: Annotated[Mapping[str, str], "Labels of the pods."] = field(default_factory=dict)
    annotations: Annotated[Mapping[str, str], "Annotations of the pods."] = field(default_factory=dict)
    priority_class_name: Annotated[str | None, "PriorityClass of the pods."] = None
    runtime_class_name: Annotated[str | None, "RuntimeClass of the pods."] = None
    topology_spread_constraints: Annotated[
        tuple[Mapping[str, Any], ...], "How pods are spread over zones and nodes, as in a pod."
    ] = ()
    affinity: Annotated[
        Mapping[str, Any], "Affinity as in a pod; nodes must satisfy it as well as the choice of GPU nodes."
    ] = field(default_factory=dict)
    security_context: Annotated[
        Mapping[str, Any], "Security context of the pods: fields added to the defaults; null removes one."
    ] = field(default_factory=dict)
    container_security_context: Annotated[
        Mapping[str, Any], "Security context of the containers: fields added to the defaults; null removes one."
    ] = field(default_factory=dict)
    env: Annotated[tuple[EnvironmentVariable, ...], "Environment variables, with references to Secrets."] = ()
    env_from: Annotated[tuple[EnvironmentSource, ...], "Secrets and ConfigMaps with environment variables."] = ()
    pod_template: Annotated[
        Mapping[str, Any], "Strategic merge patch of the pod template: sidecars, init containers, any other field."
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class Pods:
    """Options of the pods, for the head and for the workers."""

    head: Annotated[PodOptions, "Pod of the head."] = PodOptions()
    worker: Annotated[PodOptions, "Pods of the workers."] = PodOptions()
