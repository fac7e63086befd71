"""The pods of a plan: variables, placement, and the volumes that they mount for the model's files and caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.spec.model_storage import PullPolicy
from rayllm_ctl.model.spec.pod_options import EnvironmentSource, KeyOf, ObjectName
from rayllm_ctl.model.spec.service import Toleration
from rayllm_ctl.model.text.json_form import OMIT_NONE


@dataclass(frozen=True)
class EnvVar:
    """A variable of the containers: a value, a key of a Secret or a ConfigMap, or a field of the pod."""

    name: Annotated[str, "Name of the variable."]
    value: Annotated[str | None, "Its value; null where it is taken from elsewhere."] = None
    secret: KeyOf | None = None
    config_map: KeyOf | None = None
    field_path: Annotated[str | None, "Field of the pod that is its value."] = None


@dataclass(frozen=True)
class StorageVolume:
    """A volume of a pod for the model's files or caches, from exactly one source. size_limit: of an emptyDir."""

    name: Annotated[str, "Name of the volume in the pod."]
    claim: Annotated[str | None, "A PersistentVolumeClaim."] = None
    read_only: Annotated[bool, "Whether the claim is mounted read-only, whatever the container says."] = False
    image: Annotated[str | None, "An OCI image."] = None
    pull_policy: Annotated[PullPolicy | None, "When the image is pulled."] = None
    secret: Annotated[str | None, "A Secret; each key is a file."] = None
    config_map: Annotated[str | None, "A ConfigMap; each key is a file."] = None
    size_limit: Annotated[str | None, "Largest size of an emptyDir, a quantity; null: none."] = None


@dataclass(frozen=True)
class StorageMount:
    """Where a container mounts a volume."""

    volume: Annotated[str, "Name of the volume."]
    path: Annotated[str, "Directory or file in the container."]
    read_only: Annotated[bool, "Whether it is mounted read-only."] = True
    sub_path: Annotated[str | None, "File of the volume that is mounted alone."] = None


@dataclass(frozen=True)
class StorageContainer:
    """A container with the code for the model's files: it downloads them, copies them or waits for them."""

    name: Annotated[str, "Name of the container."]
    command: Annotated[str, "wait or download."]
    env: tuple[EnvVar, ...]
    mounts: tuple[StorageMount, ...]
    cpu: Annotated[str, "CPU request, a quantity."]
    memory: Annotated[str, "Memory request and limit, a quantity."]
    ephemeral_storage: Annotated[str | None, "Disk that it fills, a quantity; null: not known, or none."] = None
    env_from: tuple[EnvironmentSource, ...] = ()
    verify: Annotated[bool, "Whether a download reads the files of a complete folder as well."] = False


@dataclass(frozen=True)
class PodStorage:
    """Volumes of a pod for the model's files and caches, and the containers before its own."""

    volumes: tuple[StorageVolume, ...] = ()
    mounts: Annotated[tuple[StorageMount, ...], "Mounts of the main container."] = ()
    init: Annotated[tuple[StorageContainer, ...], "Init containers, in their order."] = ()


@dataclass(frozen=True)
class PodPlacement:
    """Where pods may run."""

    node_selector: Annotated[Mapping[str, str], "Labels that a node must have."]
    affinity: Annotated[
        Mapping[str, Any], "Affinity as Kubernetes writes it: the user's, and that for the labels of the GPU's nodes."
    ]
    tolerations: tuple[Toleration, ...]


@dataclass(frozen=True)
class PodTemplate:
    """Settings of the pods of the head or of a group of workers, beyond the sizes of their container.

    Raw parts have the form in which Kubernetes writes them. Kubernetes expands $(NAME) in the value of a variable from
    those before it, so their order counts.
    """

    placement: PodPlacement
    labels: Annotated[Mapping[str, str], "Labels of the pods."]
    annotations: Annotated[Mapping[str, str], "Annotations of the pods."]
    service_account_name: Annotated[str | None, "Service account; null: the namespace's default one."]
    image_pull_secrets: tuple[ObjectName, ...]
    priority_class_name: Annotated[str | None, "PriorityClass; null for none."]
    runtime_class_name: Annotated[str | None, "RuntimeClass; null for none."]
    topology_spread_constraints: Annotated[
        tuple[Mapping[str, Any], ...], "Topology spread constraints as Kubernetes writes them."
    ]
    security_context: Annotated[Mapping[str, Any], "Security context of the pod as Kubernetes writes it."]
    container_security_context: Annotated[
        Mapping[str, Any], "Security context of its containers as Kubernetes writes it."
    ]
    env: tuple[EnvVar, ...]
    env_from: tuple[EnvironmentSource, ...]
    keys_secret: Annotated[str | None, "Secret with API keys that is mounted; it need not exist. null: none."] = field(
        default=None, metadata=OMIT_NONE
    )
    spread_over_nodes: Annotated[
        bool, "Whether pods of a group run on different nodes where they can; topologySpreadConstraints replace it."
    ] = False
    grace_period: Annotated[int | None, "Seconds until a pod that has to end is killed; null: 30."] = field(
        default=None, metadata=OMIT_NONE
    )
    storage: PodStorage | None = field(default=None, metadata=OMIT_NONE)
