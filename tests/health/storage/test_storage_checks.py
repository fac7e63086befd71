"""What a cluster shows about the storage of a service, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.health.storage import storage_checks
from rayllm_ctl.health.storage.secrets import storage_secrets
from rayllm_ctl.health.storage.uses import claim_uses
from rayllm_ctl.model.observed.checks import Check, Need
from rayllm_ctl.model.observed.storage_facts import StorageFacts
from tests.health.storage.manifests import (
    GIB,
    GPU_NODES,
    job,
    live_claim,
    new_claim,
    node,
    pod,
    service,
    storage_class,
    volume,
)

SHARED = storage_class("shared", "nfs.csi.k8s.io", default=True)
NODES = (node("a", "z1"), node("b", "z2"))
DRIVERS = frozenset({"nfs.csi.k8s.io", "ebs.csi.aws.com", "pd.csi.storage.gke.io", "csi.vsphere.vmware.com"})


def checks(manifests: list[dict[str, Any]], model_bytes: float | None = None, **facts: Any) -> list[Check]:
    """The findings; of facts that are not given the cluster has none, and two nodes in two zones."""
    known: dict[str, Any] = {"claims": {"models": None}, "nodes": NODES, "drivers": DRIVERS, **facts}
    return list(storage_checks(claim_uses(manifests, model_bytes), StorageFacts("llm", **known)))


def existing(stored: dict[str, Any], model_bytes: float | None = None, most: int = 2, **facts: Any) -> list[Check]:
    """The findings about a claim that exists and is only read."""
    return checks([service(pod("models"), most)], model_bytes, claims={"models": stored}, **facts)


def mirrored(created: dict[str, Any], *classes: dict[str, Any], **facts: Any) -> list[Check]:
    """The findings about a claim that is created, filled by a Job, and read by up to two workers."""
    template = pod("models", **facts.pop("pods", {}))
    return checks([created, job(), service(template)], 10 * GIB, classes=classes, **facts)


def one(found: list[Check]) -> tuple[bool | None, str]:
    (check,) = found
    assert check.category == "storage"
    assert check.name == "persistentvolumeclaim/models"
    return check.ok, check.detail


CLAIM = "(spec.storage.model.claim.name)"


@pytest.mark.parametrize(
    ("stored", "ok", "detail"),
    [
        (live_claim(), True, ""),
        (live_claim(size="9Gi"), False, f"has a capacity of 9Gi, and the model's files take 10.0 GiB {CLAIM}"),
        (live_claim("Lost"), False, f"is Lost: its PersistentVolume is gone, with the data {CLAIM}"),
        (live_claim(deletionTimestamp="2026-11-29T10:00:00Z"), False, f"is being deleted {CLAIM}"),
        (
            live_claim(modes=("ReadOnlyMany",)), None,
            "has access mode ReadOnlyMany: whether it holds the model's files is unknown",
        ),
        (
            live_claim(modes=("ReadWriteOncePod",)), False,
            f"has access mode ReadWriteOncePod: only one of 2 pods can mount it {CLAIM}",
        ),
        (
            live_claim(modes=("ReadWriteOnce",)), False,
            "has access mode ReadWriteOnce: only pods of one node can mount it, and 2 pods may be on several " + CLAIM,
        ),
        (live_claim(modes=("ReadWriteOnce", "ReadOnlyMany")), True, ""),
    ],
)  # fmt: skip
def test_a_claim_that_exists(stored: dict[str, Any], ok: bool | None, detail: str) -> None:
    assert one(existing(stored, 10 * GIB)) == (ok, detail)


def test_a_claim_that_is_missing_names_the_field_that_creates_it() -> None:
    (check,) = existing(None, 10 * GIB)  # type: ignore[arg-type]
    assert (check.ok, check.detail) == (False, f"does not exist in namespace llm {CLAIM}")
    assert "spec.storage.model.mirror.to.claim.create: {} creates it, and a Job downloads the model into it" in [
        str(hint) for hint in check.hints
    ]


def test_a_claim_that_could_not_be_read_is_unknown() -> None:
    assert one(checks([service(pod("models"))], claims={})) == (
        None, "was not checked: not permitted to get persistentvolumeclaims",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "most", "pods"),
    [
        ({"nodes": NODES[:1]}, 2, {}),
        ({}, 1, {}),
        ({}, 2, {"nodeSelector": {"kubernetes.io/hostname": "a"}}),
    ],
)
def test_pods_of_one_node_share_a_claim_for_one_node(facts: dict[str, Any], most: int, pods: dict[str, Any]) -> None:
    claims = {"models": live_claim(modes=("ReadWriteOnce",))}
    assert one(checks([service(pod("models", **pods), most)], claims=claims, **facts)) == (True, "")


def test_the_head_counts_as_a_pod() -> None:
    claims = {"models": live_claim(modes=("ReadWriteOncePod",))}
    manifests = [service(pod("models"), 1, head=pod("models"))]
    assert one(checks(manifests, claims=claims))[0] is False


@pytest.mark.parametrize(
    ("path", "section"),
    [("/models/hub", "spec.storage.model.hub.cache"), ("/caches", "spec.storage.caches.compile")],
)
def test_a_cache_has_to_be_written_to(path: str, section: str) -> None:
    claims = {"models": live_claim(modes=("ReadOnlyMany",))}
    found = checks([service(pod("models", path, read_only=False))], claims=claims)
    assert one(found) == (False, f"has access mode ReadOnlyMany, and the pods cannot write to it ({section})")


def test_the_target_of_a_mirror_has_to_be_written_to() -> None:
    claims = {"models": live_claim(modes=("ReadOnlyMany",))}
    ok, detail = one(checks([job(), service(pod("models"))], claims=claims))
    assert ok is False
    assert detail.endswith("the download Job cannot write to it (spec.storage.model.mirror.to.claim.name)")


@pytest.mark.parametrize(
    ("class_name", "classes", "ok", "detail"),
    [
        ("shared", (SHARED,), None, "is Pending: its volume is being made, or cannot be"),
        ("slow", (storage_class("slow", "nfs.csi.k8s.io", binding="WaitForFirstConsumer"),), True, ""),
        ("gone", (SHARED,), None, "is Pending: there is no StorageClass gone, and no PersistentVolume of it is bound"),
        (
            "efs", (storage_class("efs", "efs.csi.aws.com"),), False,
            f"is Pending: the provisioner efs.csi.aws.com of its StorageClass efs is not installed {CLAIM}",
        ),
        ("shared", None, None, "is Pending; its StorageClass could not be read"),
    ],
)  # fmt: skip
def test_a_claim_without_a_volume(class_name: str, classes: Any, ok: bool | None, detail: str) -> None:
    assert one(existing(live_claim("Pending", class_name=class_name), classes=classes)) == (ok, detail)


MIRROR = "(spec.storage.model.mirror.to.claim.name)"
EBS = storage_class("gp3", "ebs.csi.aws.com", default=True)
NO_VOLUME = "no available PersistentVolume fits; StorageClasses: "


@pytest.mark.parametrize(
    ("created", "classes", "ok", "detail"),
    [
        (new_claim(), (SHARED,), True, ""),
        (new_claim(class_name="shared"), (EBS, SHARED), True, ""),
        (new_claim(), (EBS, SHARED), True, ""),
        (new_claim(size="9Gi"), (SHARED,), False, f"is created with 9Gi, and the model's files take 10.0 GiB {MIRROR}"),
        (
            new_claim(class_name="gp3"), (EBS,), False,
            f"gets no volume: StorageClass gp3 (ebs.csi.aws.com) does not support ReadWriteMany {MIRROR}",
        ),
        (
            new_claim(), (storage_class("local", "rancher.io/local-path", default=True),), None,
            "StorageClass local (rancher.io/local-path) supports ReadWriteMany only with sharedFileSystemPath in its "
            "configuration",
        ),
        (
            new_claim(), (storage_class("own", "example.com/nfs", default=True),), None,
            "whether StorageClass own (example.com/nfs) supports ReadWriteMany is unknown",
        ),
        (
            new_claim(), (storage_class("efs", "efs.csi.aws.com", default=True),), False,
            f"gets no volume: the provisioner of StorageClass efs (efs.csi.aws.com) is not installed {MIRROR}",
        ),
        (
            new_claim(), (storage_class("shared", "nfs.csi.k8s.io"),), False,
            f"gets no volume: the cluster has no default StorageClass, and {NO_VOLUME}shared {MIRROR}",
        ),
        (
            new_claim(class_name="nfs"), (SHARED,), False,
            f"gets no volume: there is no StorageClass nfs, and {NO_VOLUME}shared {MIRROR}",
        ),
        (
            new_claim(class_name="manual"), (storage_class("manual", "kubernetes.io/no-provisioner"),), False,
            "gets no volume: StorageClass manual makes no volumes (kubernetes.io/no-provisioner), and "
            f"{NO_VOLUME}manual {MIRROR}",
        ),
    ],
)  # fmt: skip
def test_a_claim_that_is_created(created: dict[str, Any], classes: Any, ok: bool | None, detail: str) -> None:
    if len(classes) == 2 and "storageClassName" not in created["spec"]:
        # Of two default classes the newest counts.
        classes[1]["metadata"]["creationTimestamp"] = "2026-11-29T10:00:00Z"
    assert one(mirrored(created, *classes)) == (ok, detail)


def test_a_disk_that_many_may_read_is_not_written_by_many() -> None:
    disk = storage_class("pd", "pd.csi.storage.gke.io", default=True)
    readable = mirrored(new_claim(modes=("ReadOnlyMany", "ReadWriteOnce")), disk, nodes=())
    assert one(readable) == (True, "")
    assert one(mirrored(new_claim(), disk, nodes=()))[0] is False


@pytest.mark.parametrize(
    ("there", "ok"),
    [
        (volume(class_name="manual"), True),
        (volume(class_name="other"), False),
        (volume(class_name="manual", size="50Gi"), False),
        (volume(class_name="manual", modes=("ReadWriteOnce",)), False),
        (volume(class_name="manual", phase="Bound"), False),
    ],
)
def test_a_volume_that_is_there_is_taken(there: dict[str, Any], ok: bool) -> None:
    # Without a StorageClass of this name, as volumes that are made by hand often are.
    assert one(mirrored(new_claim(class_name="manual"), SHARED, volumes=(there,)))[0] is ok


def test_classes_and_volumes_that_could_not_be_read_are_unknown() -> None:
    found = checks([new_claim(), job(), service(pod("models"))], classes=None)
    assert one(found) == (None, "is created; its StorageClass could not be read")
    ok, detail = one(mirrored(new_claim(), volumes=None))
    assert (ok, detail) == (
        None,
        "the cluster has no default StorageClass, and whether a PersistentVolume fits is unknown",
    )


@pytest.mark.parametrize(
    ("created", "stored", "ok", "detail"),
    [
        (new_claim(class_name="shared"), live_claim(), True, ""),
        (new_claim(size="50Gi"), live_claim(), True, ""),
        (
            new_claim(class_name="fast"), live_claim(), False,
            f"has the StorageClass shared, and fast cannot be set on a claim that exists {MIRROR}",
        ),
        (
            new_claim(), live_claim(modes=("ReadWriteMany", "ReadOnlyMany")), False,
            "has the access modes [ReadWriteMany, ReadOnlyMany], and [ReadWriteMany] cannot be set on a claim that "
            f"exists {MIRROR}",
        ),
        (
            new_claim(size="150Gi"), live_claim(), None,
            "keeps its size of 100Gi: StorageClass shared does not allow expansion to 150Gi",
        ),
    ],
)  # fmt: skip
def test_a_claim_to_create_that_exists(
    created: dict[str, Any], stored: dict[str, Any], ok: bool | None, detail: str
) -> None:
    assert one(mirrored(created, SHARED, claims={"models": stored})) == (ok, detail)


def test_a_claim_that_may_grow_need_not_be_large_enough_yet() -> None:
    growing = storage_class("shared", "nfs.csi.k8s.io", expands=True)
    assert one(mirrored(new_claim(), growing, claims={"models": live_claim(size="5Gi")})) == (True, "")


def test_a_volume_in_another_zone_than_the_gpus() -> None:
    nodes = (node("a", "z1"), node("gpu", "z2", gpu=True))
    manifests = [service(pod("models", **GPU_NODES))]
    claims = {"models": live_claim()}
    for zone, ok in (("z2", True), ("z1", False)):
        found = checks(manifests, claims=claims, volumes=(volume(zone=zone, phase="Bound"),), nodes=nodes)
        assert one(found)[0] is ok
    assert one(found)[1] == f"has its volume in z1, and the nodes for the pods are in z2 {CLAIM}"


def test_gpu_nodes_that_are_not_there_yet_rule_nothing_out() -> None:
    found = checks(
        [service(pod("models", **GPU_NODES))], claims={"models": live_claim()},
        volumes=(volume(zone="z1", phase="Bound"),),
    )  # fmt: skip
    assert one(found) == (True, "")


@pytest.mark.parametrize(
    ("zones", "ok", "detail"),
    [
        (
            (), None,
            "StorageClass gp3 makes its volume in one zone, which may be z1, and the nodes for the pods are in z2",
        ),
        (("z2",), True, ""),
        (("z1",), False, f"StorageClass gp3 makes volumes in z1, and the nodes for the pods are in z2 {MIRROR}"),
    ],
)  # fmt: skip
def test_a_class_of_another_zone_than_the_gpus(zones: tuple[str, ...], ok: bool | None, detail: str) -> None:
    nodes = (node("a", "z1"), node("gpu", "z2", gpu=True))
    zonal = storage_class("gp3", "ebs.csi.aws.com", default=True, zones=zones, binding="WaitForFirstConsumer")
    manifests = [new_claim(modes=("ReadWriteOnce",)), job(), service(pod("models", **GPU_NODES), 1)]
    assert one(checks(manifests, 10 * GIB, classes=(zonal,), nodes=nodes)) == (ok, detail)


@pytest.mark.parametrize(
    ("context", "size", "ok"),
    [
        ({"fsGroup": 1000}, 60, None),
        ({"fsGroup": 1000}, 1, True),
        ({"fsGroup": 1000, "fsGroupChangePolicy": "OnRootMismatch"}, 60, True),
        ({}, 60, True),
    ],
)
def test_the_group_of_all_files_of_a_large_volume(context: dict[str, Any], size: int, ok: bool | None) -> None:
    manifests = [service(pod("models", securityContext=context))]
    assert one(checks(manifests, size * GIB, claims={"models": live_claim()}))[0] is ok


def test_claims_of_other_volumes_are_the_users() -> None:
    template = pod("data")
    for part in (template["spec"]["volumes"], template["spec"]["containers"][0]["volumeMounts"]):
        part[0]["name"] = "own"
    assert claim_uses([service(template)], None) == []


def test_secrets_of_the_job_and_of_pods_that_read_buckets() -> None:
    template = pod(None)
    template["spec"]["containers"][0]["env"] = [
        {"name": "AWS_ACCESS_KEY_ID", "valueFrom": {"secretKeyRef": {"name": "bucket", "key": "AWS_ACCESS_KEY_ID"}}},
        {"name": "OTHER", "valueFrom": {"secretKeyRef": {"name": "other", "key": "x"}}},
    ]
    template["spec"]["volumes"] = [
        {"name": "storage-source", "secret": {"secretName": "gcs"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
    ]
    token = {"name": "hub", "key": "token"}
    assert storage_secrets([job(HF_TOKEN=token), service(template)]) == [
        Need("Secret", "hub", "token"),
        Need("Secret", "bucket", "AWS_ACCESS_KEY_ID"),
        Need("Secret", "gcs", "credentials.json"),
    ]
