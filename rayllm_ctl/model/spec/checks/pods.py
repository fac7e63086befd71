"""Checks of spec.pods and of the level of Pod Security.

Raw parts of pods (affinity, security contexts, ...) are checked here as far as this program reads them, and against the
schema of the object once it is rendered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rayllm_ctl.model.spec.checks import environment
from rayllm_ctl.model.spec.checks.engine_args import holds_a_credential, names_a_secret
from rayllm_ctl.model.spec.checks.plain_data import any_text, is_plain_data
from rayllm_ctl.model.spec.checks.pod_fields import is_data_key, is_label_key, is_object_name
from rayllm_ctl.model.spec.pod_contexts import container_context, pod_context
from rayllm_ctl.model.spec.pod_options import AllOf, EnvironmentSource, EnvironmentVariable, KeyOf, PodOptions
from rayllm_ctl.model.spec.pod_security import violations
from rayllm_ctl.model.spec.security import PodSecurity
from rayllm_ctl.model.spec.service import LLMService
from rayllm_ctl.model.text.patterns import LABEL_VALUE, UNSENDABLE, Pattern
from rayllm_ctl.model.text.problems import Path, Problem, quoted

_RESERVED_PREFIXES = ("ray.io/", "rayllm.io/")
_KUBERAY_LABELS = ("app.kubernetes.io/name", "app.kubernetes.io/created-by")
"""By these KubeRay's Services select pods (ray-operator/controllers/ray/common/pod.go, labelPod, v1.6.2)."""

FIELD_PATH = Pattern(
    r"metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['[^'\s]+'\]|spec\.(nodeName|serviceAccountName)"
    r"|status\.(hostIPs?|podIPs?)"
)
"""What Kubernetes accepts as fieldPath of a variable (pkg/apis/core/validation/validation.go, v1.36). It checks pods,
but not the templates in a RayCluster: their pods could never be created."""

_REQUIRED_TERMS = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def pod_problems(service: LLMService) -> Iterator[Problem]:
    """All that is wrong with the pods' options, and with what their level of security forbids."""
    level = service.security.pod_security
    for role, pod in (("head", service.pods.head), ("worker", service.pods.worker)):
        at: Path = ("spec", "pods", role)
        yield from _object_names(at, pod)
        yield from _metadata(at, pod)
        yield from _environment(at, pod, service)
        yield from _raw_parts(at, pod)
        yield from _contexts(at, pod, level)
    for index, volume in enumerate(service.storage.volumes):
        if volume.host_path is not None and level != "privileged":
            yield Problem(
                ("spec", "storage", "volumes", index, "hostPath"),
                f"violates Pod Security {level}: pods must not mount directories of the node",
                "a persistentVolumeClaim, or spec.security.podSecurity: privileged (--pod-security privileged)",
            )


def _object_names(at: Path, pod: PodOptions) -> Iterator[Problem]:
    names = [
        ((*at, "serviceAccountName"), pod.service_account_name),
        ((*at, "priorityClassName"), pod.priority_class_name),
        ((*at, "runtimeClassName"), pod.runtime_class_name),
        *(
            ((*at, "imagePullSecrets", index, "name"), secret.name)
            for index, secret in enumerate(pod.image_pull_secrets)
        ),
    ]
    for path, name in names:
        if name is not None and not is_object_name(name):
            yield Problem(path, f"{quoted(name)} is not a valid object name")
    secrets = [secret.name for secret in pod.image_pull_secrets]
    for index, name in enumerate(secrets):
        if name in secrets[:index]:
            yield Problem((*at, "imagePullSecrets", index, "name"), f"duplicate Secret {quoted(name)}")


def _metadata(at: Path, pod: PodOptions) -> Iterator[Problem]:
    for field, entries in (("labels", pod.labels), ("annotations", pod.annotations)):
        for key, value in entries.items():
            path = (*at, field, key)
            if not is_label_key(key):
                yield Problem(path, f"{quoted(key)} is not a valid {field[:-1]} key")
            elif key.startswith(_RESERVED_PREFIXES) or (field == "labels" and key in _KUBERAY_LABELS):
                yield Problem(path, "is reserved for KubeRay and rayllm-ctl")
            elif field == "labels" and not LABEL_VALUE.fullmatch(value):
                yield Problem(path, f"{quoted(value)} is not a valid label value")
            elif UNSENDABLE.search(value):
                yield Problem(path, "the value contains control characters that Kubernetes rejects")


def _environment(at: Path, pod: PodOptions, service: LLMService) -> Iterator[Problem]:
    elsewhere = dict.fromkeys(service.engine.env, "spec.engine.env")
    if service.model.token_secret is not None:
        elsewhere["HF_TOKEN"] = "spec.model.tokenSecret"  # noqa: S105  a field of the spec
    if any(entry.token_secret is not None for entry in service.models):
        elsewhere["HF_TOKEN"] = "spec.models[].tokenSecret"  # noqa: S105  a field of the spec
    seen: set[str] = set()
    for index, variable in enumerate(pod.env):
        path = (*at, "env", index)
        yield from environment.name_problems((*path, "name"), variable.name)
        if variable.name in elsewhere:
            yield Problem((*path, "name"), f"{variable.name} is also set by {elsewhere[variable.name]}")
        elif variable.name in seen:
            yield Problem((*path, "name"), f"duplicate variable {quoted(variable.name)}")
        seen.add(variable.name)
        yield from _variable(path, variable)
    for index, source in enumerate(pod.env_from):
        yield from _source((*at, "envFrom", index), source)


def _variable(at: Path, variable: EnvironmentVariable) -> Iterator[Problem]:
    source = variable.value_from
    if (variable.value is None) == (source is None):
        yield Problem(at, "must have either value or valueFrom")
    if variable.value is not None:
        yield from environment.value_problems(
            (*at, "value"), variable.name, variable.value, "put it in a Secret and refer to it: valueFrom.secretKeyRef"
        )
    if source is None:
        return
    keys = {"secretKeyRef": source.secret_key_ref, "configMapKeyRef": source.config_map_key_ref}
    given = [kind for kind, found in (*keys.items(), ("fieldRef", source.field_ref)) if found is not None]
    if len(given) != 1:
        names = ", ".join((*keys, "fieldRef"))
        yield Problem((*at, "valueFrom"), f"must have exactly one source, not {len(given)} ({names})")
    for kind, key in keys.items():
        if key is not None:
            yield from _reference((*at, "valueFrom", kind), key)
    if source.field_ref is not None and not FIELD_PATH.fullmatch(source.field_ref.field_path):
        yield Problem(
            (*at, "valueFrom", "fieldRef", "fieldPath"),
            f"{quoted(source.field_ref.field_path)} is not a field that a variable can have",
            "metadata.name, metadata.labels['KEY'], spec.nodeName, status.podIP, ...",
        )


def _source(at: Path, source: EnvironmentSource) -> Iterator[Problem]:
    objects = {"secretRef": source.secret_ref, "configMapRef": source.config_map_ref}
    given = {kind: found for kind, found in objects.items() if found is not None}
    if len(given) != 1:
        yield Problem(at, f"must have exactly one source, not {len(given)} ({', '.join(objects)})")
    if source.prefix is not None:
        yield from environment.name_problems((*at, "prefix"), source.prefix)
    for kind, found in given.items():
        yield from _reference((*at, kind), found)


def _reference(at: Path, reference: KeyOf | AllOf) -> Iterator[Problem]:
    """Names are not repeated: somebody may have written the secret itself."""
    if not is_object_name(reference.name):
        yield Problem((*at, "name"), "expected the name of an object, not its content")
    if isinstance(reference, KeyOf) and not is_data_key(reference.key):
        yield Problem((*at, "key"), "expected a key of the object, not its value")


def _raw_parts(at: Path, pod: PodOptions) -> Iterator[Problem]:
    parts = {
        "topologySpreadConstraints": pod.topology_spread_constraints,
        "affinity": pod.affinity,
        "securityContext": pod.security_context,
        "containerSecurityContext": pod.container_security_context,
        "podTemplate": pod.pod_template,
    }
    for name, part in parts.items():
        if not is_plain_data(part) or any_text(part, lambda text: UNSENDABLE.search(text) is not None):
            yield Problem((*at, name), "contains characters or numbers that Kubernetes rejects")
    yield from _node_affinity((*at, "affinity"), pod.affinity)
    if any_text(pod.pod_template, holds_a_credential) or _has_a_secret_variable(pod.pod_template):
        yield Problem(
            (*at, "podTemplate"),
            "a value looks like a credential; anyone who can read the object could read it",
            "put it in a Secret and refer to it: valueFrom.secretKeyRef",
        )


def _has_a_secret_variable(part: Any) -> bool:
    """Whether an environment variable in `part` contains a secret, by its name."""
    if isinstance(part, Mapping):
        name, value = part.get("name"), part.get("value")
        named = isinstance(name, str) and isinstance(value, str) and names_a_secret(name)
        return (named and bool(value)) or any(map(_has_a_secret_variable, part.values()))
    return isinstance(part, (list, tuple)) and any(map(_has_a_secret_variable, part))


def _node_affinity(at: Path, affinity: Mapping[str, Any]) -> Iterator[Problem]:
    """The terms that are combined with those of the GPU's nodes have to have the shape of terms."""
    found: Any = affinity
    for key in _REQUIRED_TERMS:
        if not isinstance(found, Mapping):
            yield Problem(at, "expected a mapping")
            return
        if key not in found:
            return
        at, found = (*at, key), found[key]
    if not isinstance(found, list) or not found:
        yield Problem(at, "expected a list of at least one term")
        return
    for index, term in enumerate(found):
        lists = [term.get(key, []) for key in ("matchExpressions", "matchFields")] if isinstance(term, Mapping) else []
        if not any(lists) or not all(isinstance(part, list) for part in lists):
            yield Problem((*at, index), "expected matchExpressions or matchFields: a term without them matches no node")


def _contexts(at: Path, pod: PodOptions, level: PodSecurity) -> Iterator[Problem]:
    places: dict[str | int, str] = {"securityContext": "securityContext", "containers": "containerSecurityContext"}
    spec = {
        "securityContext": pod_context(level, pod.security_context),
        "containers": [{"securityContext": container_context(level, pod.container_security_context)}],
    }
    for found in violations(spec, level):
        rest = found.path[1:] if found.path[0] == "securityContext" else found.path[3:]
        yield Problem(
            (*at, places[found.path[0]], *rest),
            f"violates Pod Security {level}: {found.reason}",
            f"spec.security.podSecurity: {found.permitted_by}",
        )
