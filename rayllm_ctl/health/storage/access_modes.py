"""Access modes of claims against the pods that mount them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rayllm_ctl.health.objects.node import read_nodes
from rayllm_ctl.health.storage.report import found
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.storage_facts import ClaimUse, StorageFacts
from rayllm_ctl.model.text.hint import Hint

MANY = "ReadWriteMany"
READ_MANY = "ReadOnlyMany"
ONCE = "ReadWriteOnce"
ONCE_POD = "ReadWriteOncePod"

_HOSTNAME = "kubernetes.io/hostname"


def access_mode_checks(use: ClaimUse, modes: Sequence[str], facts: StorageFacts) -> Iterator[Check]:
    """Whether a claim with these access modes can be mounted by all pods, and written to.

    ReadWriteOnce is for one node, ReadWriteOncePod for one pod
    (kubernetes.io/docs/concepts/storage/persistent-volumes, "Access Modes").
    """
    if MANY in modes:
        return
    shown = ", ".join(modes) or "none"
    change = _change(use)
    if use.writer and set(modes) <= {READ_MANY}:
        yield found(use, False, f"has access mode {shown}, and {use.writer} cannot write to it", change)
    elif READ_MANY in modes:
        return
    elif ONCE_POD in modes and ONCE not in modes and use.pods > 1:
        yield found(use, False, f"has access mode {shown}: only one of {use.pods} pods can mount it", change)
    elif use.pods > 1 and not _on_one_node(use, facts):
        yield found(
            use, False,
            f"has access mode {shown}: only pods of one node can mount it, and {use.pods} pods may be on several",
            change, Hint("kubectl get storageclass", "with shared file systems: NFS, EFS, Filestore, Azure Files"),
        )  # fmt: skip


def _change(use: ClaimUse) -> Hint:
    if use.created is not None:
        return Hint(remark=f"{use.field}.create.accessModes: [{MANY}]")
    return Hint(remark=f"name a claim with access mode {MANY} in {use.field}.{use.key}")


def _on_one_node(use: ClaimUse, facts: StorageFacts) -> bool:
    """Whether all pods run on the same node: their node selector names it, or there is no other."""
    hosts = {fields.mapping(one, "spec", "nodeSelector").get(_HOSTNAME) for one in use.templates}
    if len(hosts) == 1 and None not in hosts:
        return True
    return facts.nodes is not None and len(read_nodes(facts.nodes, ())) == 1
