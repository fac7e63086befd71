"""StorageClasses: the one that a claim gets, and what is known of provisioners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.observed.storage_facts import StorageFacts

NO_PROVISIONER = "kubernetes.io/no-provisioner"

_DEFAULT = "storageclass.kubernetes.io/is-default-class"


@dataclass(frozen=True)
class Provisioner:
    """What is known of a provisioner, for volumes with a file system. many: whether they can be written from several
    nodes; None: if it is set up for that, as `condition` says. read_many: whether several nodes can read them. zonal:
    whether a volume is in one zone.
    """

    many: bool | None
    read_many: bool = False
    zonal: bool = False
    condition: str = ""


_BLOCK = Provisioner(many=False, zonal=True)

PROVISIONERS: Mapping[str, Provisioner] = {
    # aws-ebs-csi-driver, "Multi-Attach": several nodes only as raw block devices, of io2.
    "ebs.csi.aws.com": _BLOCK,
    "ebs.csi.eks.amazonaws.com": _BLOCK,
    "kubernetes.io/aws-ebs": _BLOCK,
    # cloud.google.com/kubernetes-engine/docs/concepts/persistent-volumes, "Access modes": ReadOnlyMany, and
    # ReadWriteMany for raw block devices alone.
    "pd.csi.storage.gke.io": Provisioner(many=False, read_many=True, zonal=True),
    "kubernetes.io/gce-pd": Provisioner(many=False, read_many=True, zonal=True),
    # azuredisk-csi-driver, "Driver Parameters", maxShares: shared disks are raw block devices.
    "disk.csi.azure.com": _BLOCK,
    "kubernetes.io/azure-disk": _BLOCK,
    # kubernetes/cloud-provider-openstack#1367: volumes are made for any access mode, and attached to one node.
    "cinder.csi.openstack.org": _BLOCK,
    "kubernetes.io/cinder": _BLOCK,
    # ceph/ceph-csi#427: "multi node access modes are only supported on rbd `block` type volumes".
    "rbd.csi.ceph.com": Provisioner(many=False, read_many=True),
    "rook-ceph.rbd.csi.ceph.com": Provisioner(many=False, read_many=True),
    # kubernetes-csi.github.io/docs/drivers.html, "Supported Access Modes": Read/Write Single Pod.
    "dobs.csi.digitalocean.com": _BLOCK,
    "csi.hetzner.cloud": _BLOCK,
    # local-path-provisioner, README: one node, except with sharedFileSystemPath in its configuration.
    "rancher.io/local-path": Provisioner(None, condition="with sharedFileSystemPath in its configuration"),
    # docs.vmware.com, vSphere Container Storage Plug-in: file volumes require the vSAN file service.
    "csi.vsphere.vmware.com": Provisioner(None, condition="with the vSAN file service"),
    # longhorn.io/docs, "ReadWriteMany (RWX) Volume": by its share manager.
    "driver.longhorn.io": Provisioner(many=True),
    "efs.csi.aws.com": Provisioner(many=True),
    "fsx.csi.aws.com": Provisioner(many=True),
    "filestore.csi.storage.gke.io": Provisioner(many=True),
    "file.csi.azure.com": Provisioner(many=True),
    "nfs.csi.k8s.io": Provisioner(many=True),
    "cephfs.csi.ceph.com": Provisioner(many=True),
    "rook-ceph.cephfs.csi.ceph.com": Provisioner(many=True),
}
"""Provisioners by their names in StorageClasses."""


def class_of(classes: Sequence[Object], name: str) -> Object | None:
    """The StorageClass of a name."""
    return next((one for one in classes if fields.name(one) == name), None)


def default_class(classes: Sequence[Object]) -> Object | None:
    """The default StorageClass: of several, the newest
    (kubernetes.io/docs/concepts/storage/storage-classes, "Default StorageClass")."""
    marked = [one for one in classes if fields.annotation(one, _DEFAULT) == "true"]
    return max(marked, key=lambda one: fields.text(one, "metadata", "creationTimestamp"), default=None)


def is_missing_driver(storage_class: Object, facts: StorageFacts) -> bool:
    """Whether the provisioner of a class is a CSI driver that is not installed.

    Only names of the form NAME.csi.DOMAIN are certain to be those of a CSIDriver.
    """
    provisioner = fields.text(storage_class, "provisioner")
    return facts.drivers is not None and ".csi." in provisioner and provisioner not in facts.drivers
