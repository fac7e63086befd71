"""Labels and annotations of the objects that rayllm-ctl applies: written by render, read by the inventory."""

from __future__ import annotations

import re

MANAGER = "rayllm-ctl"
"""Field manager of server-side apply and value of app.kubernetes.io/managed-by."""

CONTROLLER = "rayllm-controller"
"""Field manager of the controller: neither it nor the command line takes over from the other unnoticed."""

NAME = "app.kubernetes.io/name"
INSTANCE = "app.kubernetes.io/instance"
VERSION = "app.kubernetes.io/version"
COMPONENT = "app.kubernetes.io/component"
PART_OF = "app.kubernetes.io/part-of"
MANAGED_BY = "app.kubernetes.io/managed-by"

SERVICE = "rayllm.io/service"
"""Label of a service's pods, of all its RayClusters: KubeRay labels pods with the name of their RayCluster only, which
changes with every upgrade. And of the revisions of its history."""

USER = "rayllm.io/user"
CHANGE = "rayllm.io/change"
OUTCOME = "rayllm.io/outcome"
START_SECONDS = "rayllm.io/start-seconds"
"""Annotations of a revision: author, changes, outcome, and the start-up limit of its plan."""

SPEC_DIGEST = "rayllm.io/spec-digest"
CHILDREN = "rayllm.io/children"
FIRST = "rayllm.io/first"
WAY = "rayllm.io/way"
DONE = "rayllm.io/done"
PLAN = "rayllm.io/plan"
"""Annotations of a revision that the controller made: the digest of the spec that it was rendered from, what it
consists of, what of that is applied first, how it is applied, whether that is done, and the figures of its plan
(JSON)."""

ACCEPTED = "rayllm.io/accept"
"""Annotation of an LLMService: the generation whose cost (an outage, further GPUs) the user accepts."""

RAISED = "rayllm.io/raised-for"
"""Annotation of the object that runs a service: the revision for which it has another replica for a while."""

RESTARTED = "rayllm.io/restarted-at"
"""Annotation of the head's pod template: when `restart` asked for a new RayCluster."""

RESTARTER = "rayllm-ctl-restart"
"""Field manager of RESTARTED: the next deploy leaves it as it is, and starts no third RayCluster."""

SUSPENDER = "rayllm-ctl-suspend"
"""Field manager of the field that suspends a service: the next deploy leaves it suspended."""

QUEUE = "kueue.x-k8s.io/queue-name"
"""Label of what Kueue suspends and resumes (kueue/pkg/controller/constants)."""

UNRECORDED = "rayllm.io/unrecorded-kinds"
"""Annotation of the object of a service: kinds of objects that were applied with it, and that its history does not name
because the revision could not be written."""

HISTORIAN = "rayllm-ctl-history"
"""Field manager of UNRECORDED: the next deploy leaves it as it is until a revision is written."""

BATCH = "rayllm.io/batch"
"""Label of all objects and pods of a batch job: its name. A service of the same name is none of them."""

CODE_VERSION = "rayllm.io/version"
CODE_DIGEST = "rayllm.io/code-digest"
"""Annotations of a ConfigMap with code that runs in the pods: the release of rayllm-ctl that has it, and its digest."""

MODEL = "rayllm.io/model"
"""Annotation: the model's id as the user wrote it (a label could not hold its slash)."""

KEYS_CHANGED = "rayllm.io/keys-changed"
"""Annotation of pods that mount API keys: when these were last changed."""

INGRESS = "rayllm.io/ingress"
"""Annotation of a RayService or RayCluster: name of the Ingress in front of the service. It is looked for only then."""

HTTP_ROUTE = "rayllm.io/httproute"
"""The same for an HTTPRoute."""

OTHER_KINDS = "rayllm.io/other-kinds"
"""Annotation of the object of a service: kinds beyond the table of api_kinds that a user's templates add."""

SWEEP = "rayllm.io/sweep"
"""Annotation of all objects that a sweep applied: its id. It deletes no others."""

APPLICATION = "llmservice"
"""Value of NAME on all objects of all services."""

BATCH_APPLICATION = "batchjob"
"""Value of NAME on all objects of all batch jobs."""

BENCH_APPLICATION = "loadtest"
"""Value of NAME on the objects of load tests, which live as long as the command that made them."""

_NOT_A_LABEL_VALUE = re.compile(r"[^A-Za-z0-9._-]+")


def service_labels(service: str, vllm_version: str, component: str = "inference") -> dict[str, str]:
    """The six recommended labels of an object that belongs to the LLMService named `service`.

    KubeRay copies a RayService's labels to the objects it makes, so labels alone do not prove who applied an object.
    """
    return {
        NAME: APPLICATION,
        INSTANCE: service,
        VERSION: label_value(vllm_version),
        COMPONENT: component,
        PART_OF: service,
        MANAGED_BY: MANAGER,
    }


def batch_labels(job: str, vllm_version: str) -> dict[str, str]:
    """The labels of an object that belongs to the BatchJob named `job`."""
    return {**service_labels(job, vllm_version, "batch"), NAME: BATCH_APPLICATION, BATCH: job}


def label_value(text: str) -> str:
    """`text` as a label value: at most 63 of the allowed characters, a letter or digit at both ends."""
    return _NOT_A_LABEL_VALUE.sub("-", text)[:63].strip("._-")
