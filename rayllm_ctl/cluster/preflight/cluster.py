"""Prerequisites of services in a cluster, for `check`. The checks are independent; nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rayllm_ctl.cluster.api.client import Cluster
from rayllm_ctl.cluster.api.errors import INSTALL_KUBERAY, ForbiddenError, NotFoundError
from rayllm_ctl.cluster.api.permissions import format_right, missing, not_permitted, user_name
from rayllm_ctl.cluster.api.reader import Objects
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.api_kinds import kind
from rayllm_ctl.model.observed.checks import Check, Need
from rayllm_ctl.model.text.hint import Hint, read_hint
from rayllm_ctl.model.workload import Right, Rights

KUBERAY_KINDS = ("RayService", kuberay.RAY_CLUSTER, "RayJob")

_LEVEL = "pod-security.kubernetes.io/enforce"


def served_kinds(cluster: Cluster, namespace: str) -> Check:
    """Whether the API server serves KubeRay's kinds."""
    absent = []
    for name in KUBERAY_KINDS:
        try:
            cluster.get(name, "-", namespace)
        except ForbiddenError as error:
            return Check("KubeRay", "CRDs", None, f"not permitted to {error.right}")
        except NotFoundError as error:
            if not error.about:
                absent.append(kind(name).resource)
    if absent:
        return Check(
            "KubeRay", "CRDs", False, f"the cluster does not serve {', '.join(absent)}", (Hint(INSTALL_KUBERAY),)
        )
    return Check("KubeRay", "CRDs", True, ", ".join(kind(name).resource for name in KUBERAY_KINDS))


def operator_objects(cluster: Cluster) -> tuple[Objects, Objects] | None:
    """The operator's Deployments and pods; None if they may not be read."""
    try:
        lists = [
            cluster.list(kind_name, label_selector=kuberay.OPERATOR_SELECTOR) for kind_name in ("Deployment", "Pod")
        ]
    except ForbiddenError:
        return None
    return lists[0], lists[1]


def namespace_checks(cluster: Cluster, namespace: str) -> Iterator[Check]:
    """The namespace itself and its Pod Security level."""
    try:
        stored = cluster.get("Namespace", namespace)
    except NotFoundError:
        hint = Hint(f"kubectl create namespace {namespace}")
        yield Check("namespace", namespace, False, "does not exist", (hint,))
        return
    except ForbiddenError as error:
        yield Check("namespace", namespace, None, f"not permitted to {error.right}")
    else:
        if (stored.get("status") or {}).get("phase") == "Terminating":
            hint = Hint(f"kubectl get namespace {namespace} -o yaml")
            yield Check("namespace", namespace, False, "is being deleted", (hint,))
            return
        yield Check("namespace", namespace, True, "exists")
        level = (stored["metadata"].get("labels") or {}).get(_LEVEL)
        if level:
            yield Check("namespace", "Pod Security", True, f"{level} is enforced; pods satisfy restricted by default")


def quotas(cluster: Cluster, namespace: str) -> Objects | None:
    """The ResourceQuotas of a namespace; None if they may not be read."""
    try:
        return cluster.list("ResourceQuota", namespace)
    except ForbiddenError:
        return None


def _subject(cluster: Cluster) -> str:
    """The flag of `rbac` that names the user."""
    user = user_name(cluster)
    account = user.removeprefix("system:serviceaccount:")
    return f"--user {user}" if account == user else f"--service-account {account}"


def permission_checks(cluster: Cluster, namespace: str, wanted: Mapping[str, Rights]) -> Iterator[Check]:
    """The user's permissions in the namespace, by command."""
    every = list(dict.fromkeys(right for rights in wanted.values() for right in (*rights.needed, *rights.display)))
    lacking = set(missing(cluster, namespace, every))
    for name, rights in wanted.items():
        fatal = [right for right in rights.needed if right in lacking]
        less = [right for right in rights.display if right in lacking]
        if fatal:
            error = not_permitted(cluster, namespace, fatal)
            hint = Hint(f"rayllm-ctl rbac --for {name} -n {namespace} {_subject(cluster)}", "prints the Role")
            yield Check("permissions", name, False, error.message, (*map(read_hint, error.hints[:1]), hint))
        elif less:
            shown = f"works, but shows less: not permitted to {', '.join(map(format_right, less))}"
            yield Check("permissions", name, None, shown)
        else:
            yield Check("permissions", name, True)


def need_checks(cluster: Cluster, namespace: str, needed: Iterable[Need], category: str) -> Iterator[Check]:
    """Whether the objects that pods refer to exist, with the keys that they read."""
    existing = 0
    for need in needed:
        what = kind(need.kind)
        label = f"{need.kind} {need.name}"
        try:
            stored = cluster.get(need.kind, need.name, namespace if what.namespaced else None)
        except NotFoundError:
            place = f" in namespace {namespace}" if what.namespaced else ""
            yield Check(category, label, False, f"does not exist{place}", _remedy(need, namespace))
            continue
        except ForbiddenError as error:
            yield Check(category, label, None, f"not permitted to {error.right}")
            continue
        keys = {*(stored.get("data") or {}), *(stored.get("binaryData") or {})}
        if need.key and need.key not in keys:
            has = f"it has {', '.join(sorted(keys))}" if keys else "it is empty"
            yield Check(category, label, False, f"has no key {need.key}; {has}", _remedy(need, namespace))
            continue
        phase = (stored.get("status") or {}).get("phase")
        if need.kind == "PersistentVolumeClaim" and phase != "Bound":
            hint = Hint(f"kubectl describe pvc {need.name} -n {namespace}")
            yield Check(
                category,
                label,
                None,
                f"is {phase or 'not bound'}: it may be bound when its first pod is created",
                (hint,),
            )
            continue
        existing += 1
    if existing:
        yield Check(category, "references", True, f"{existing} objects that pods refer to exist")


def _remedy(need: Need, namespace: str) -> tuple[Hint, ...]:
    if need.kind == "Secret" and need.key:
        # Without a value: command lines end up in the shell's history.
        return (Hint(f"kubectl create secret generic {need.name} -n {namespace} --from-file={need.key}=FILE"),)
    where = f" -n {namespace}" if kind(need.kind).namespaced else ""
    return (Hint(f"kubectl get {kind(need.kind).plural}{where}"),)


def admission_checks(
    cluster: Cluster, namespace: str, templates: Mapping[str, Mapping[str, Any]], category: str
) -> Iterator[Check]:
    """Whether the API server would admit the pods: a dry run of each, with the same answers of Pod Security, quotas,
    limit ranges and admission webhooks as for KubeRay."""
    create = Right("create", "Pod")
    if templates and missing(cluster, namespace, [create]):
        yield Check(category, "admission", None, f"not checked: not permitted to {format_right(create)}")
        return
    for who, template in templates.items():
        yield _admission(cluster, namespace, who, template, category)


def _admission(cluster: Cluster, namespace: str, who: str, template: Mapping[str, Any], category: str) -> Check:
    metadata = template.get("metadata") or {}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "rayllm-check-", "namespace": namespace,
            **{key: metadata[key] for key in ("labels", "annotations") if key in metadata},
        },
        "spec": template["spec"],
    }  # fmt: skip
    try:
        cluster.request_json(
            "POST", kind("Pod").path(namespace), query=[("dryRun", "All")], body=pod, doing=f"admit {who}"
        )
    except UserError as error:
        return Check(category, f"admission of {who}", False, error.message, tuple(map(read_hint, error.hints)))
    return Check(category, f"admission of {who}", True)
