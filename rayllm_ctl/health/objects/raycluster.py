"""A RayCluster of a service with its pods and what Serve says of it."""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.health.objects.cluster_spec import ClusterSpec
from rayllm_ctl.health.objects.pod import Pod
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.observed import fields
from rayllm_ctl.model.observed.health import Object
from rayllm_ctl.model.observed.serve_state import NOT_ASKED, Application, Deployment, ServeState

RUNNING = ("RUNNING", "PENDING_MIGRATION", "RECOVERING", "UPDATING")
"""States of a replica that answers: one that is to move keeps answering until its successor does; a controller that
was restarted finds its replicas again; and a changed user configuration needs no restart."""


@dataclass(frozen=True)
class RayCluster:
    """`role` is active, pending or retired. `item` None: the object could not be read. `lost`: pods on a node that is
    down. `by_serve`: whether Ray Serve runs the model, and not vLLM's own server. `unseen`: its pods could not be read.
    """

    name: str
    role: str
    item: Object | None
    spec: ClusterSpec
    pods: tuple[Pod, ...]
    serve: ServeState
    lost: frozenset[str]
    by_serve: bool = True
    unseen: bool = False

    @property
    def subject(self) -> str:
        return f"raycluster/{self.name}"

    @property
    def live_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.alive)

    @property
    def head(self) -> Pod | None:
        """The head pod; the newest, should a second one be on its way out."""
        heads = [pod for pod in self.live_pods if pod.head]
        return max(heads, key=lambda pod: pod.created.timestamp() if pod.created else 0.0) if heads else None

    @property
    def workers(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.live_pods if not pod.head)

    @property
    def answers_without_head(self) -> bool:
        """Whether requests are answered while the head is down: by workers that outlive it and whose proxies answer."""
        return self.spec.fault_tolerant and any(pod.ready and pod.name not in self.lost for pod in self.workers)

    @property
    def servers(self) -> tuple[Pod, ...]:
        """The pods in which vLLM's own server runs; empty under Ray Serve."""
        return () if self.by_serve else tuple(pod for pod in self.workers if pod.group == kuberay.SERVERS)

    @property
    def ready_servers(self) -> tuple[Pod, ...]:
        """The servers that take requests."""
        return tuple(pod for pod in self.servers if pod.ready and pod.name not in self.lost)

    @property
    def servers_wanted(self) -> int:
        """Servers that the cluster wants: one for each replica."""
        return sum(group.wanted for group in self.spec.groups if group.name == kuberay.SERVERS)

    @property
    def workers_wanted(self) -> int:
        """Worker pods that the cluster wants now, by its groups' replicas."""
        return sum(group.wanted * group.hosts for group in self.spec.groups)

    @property
    def provisioned(self) -> bool:
        """Whether all pods ran once. The condition latches: it says nothing about now."""
        return self.item is not None and fields.condition(self.item, "RayClusterProvisioned").get("status") == "True"

    def running(self, deployment: Deployment) -> int:
        """Replicas of a deployment that answer: those on a pod that is gone or down, or on a dead node, do not.

        On a pod that is being deleted they keep answering until its container ends, 30 s later.
        """
        up = {pod.name for pod in self.pods if pod.running} - self.lost
        if self.serve.from_status:
            candidates = self.workers if self.workers_wanted else self.pods
            somewhere = self.unseen or any(pod.name in up for pod in candidates)
            return int(somewhere and deployment.status in ("HEALTHY", "UPSCALING", "DOWNSCALING"))
        return sum(
            replica.state in RUNNING and (self.unseen or (replica.pod in up if replica.pod else bool(up)))
            for replica in deployment.replicas
        )

    def answers(self, app: Application) -> bool:
        """Whether an application answers requests: every deployment has a replica, or is scaled to zero on purpose."""
        if self.serve.from_status and app.status == "RUNNING" and not app.deployments:
            return True
        return bool(app.deployments) and all(
            self.running(one) > 0 or (one.target == 0 and one.low == 0 and not self.serve.from_status)
            for one in app.deployments
        )

    @property
    def unread(self) -> str:
        """Why Serve's state could not be read although this cluster serves; empty if it was, or nobody tried.

        While a cluster starts, that Serve does not answer yet is nothing to speak of.
        """
        return "" if self.verified or self.serve.error == NOT_ASKED else self.serve.error

    @property
    def verified(self) -> bool:
        """Whether replicas are known by Serve's own account, as far as there can be any."""
        return self.role != "active" or not self.serve.error

    @property
    def serving(self) -> bool:
        """Whether at least one application, or server, answers; of models behind an ingress, it and one of them."""
        applications = self.serve.applications
        fronts = [app for app in applications if app.deployments and all(one.ingress for one in app.deployments)]
        behind = [app for app in applications if app not in fronts]
        return bool(self.ready_servers) or (any(map(self.answers, behind or fronts)) and all(map(self.answers, fronts)))

    @property
    def complete(self) -> bool:
        """Whether every application runs with all the replicas wanted; or head and workers are ready, all of them."""
        if not self.by_serve:
            ready = sum(pod.ready and pod.name not in self.lost for pod in self.workers)
            return self.head is not None and self.head.ready and ready >= self.workers_wanted
        return bool(self.serve.applications) and all(
            app.status == "RUNNING"
            and self.answers(app)
            and all(
                one.status in ("HEALTHY", "") and (self.serve.from_status or self.running(one) >= one.target)
                for one in app.deployments
            )
            for app in self.serve.applications
        )

    @property
    def models(self) -> tuple[Deployment, ...]:
        """The deployments that hold a model: all but ingresses."""
        return tuple(one for one in self.serve.deployments if not one.ingress)
