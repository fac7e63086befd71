"""Rules of model storage and caches, in CEL: those of their sections, and what contradicts them elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from rayllm_ctl.model.kube.model_downloads import CACHES_PATH, MODELS_PATH, VOLUME_NAMES
from rayllm_ctl.model.spec import model_storage
from rayllm_ctl.model.spec.checks.storage.claims import HOSTNAME
from rayllm_ctl.model.spec.checks.storage.loading import DOWNLOADS, FORMAT, SHARDED_STREAMER, STREAMER
from rayllm_ctl.model.spec.checks.storage.mounts import CACHE_VARIABLES, HUB_VARIABLES
from rayllm_ctl.model.text import patterns
from rayllm_ctl.specfile.crd.model import ARGS, OF_CPUS, ON_CPU, ON_TRANSFORMERS
from rayllm_ctl.specfile.crd.rule import CelRule, CelRules, by_default, count_of, has, some, unless, value
from rayllm_ctl.specfile.crd.shapes import given_name, matches

_AT = ".storage.model"
_MODEL, _CACHES = has("storage.model"), has("storage.caches")
_CLAIMS = {"hub": "cache", "claim": "name", "mirror.to.claim": "name"}
"""Sections with a claim, and the field with its name."""

_FROM_HUB = (
    f"(({has('storage.model.hub')}) || (({has('storage.model.mirror')}) && "
    f"{by_default('storage.model.mirror.from', repr(model_storage.HUB))}))"
)
_STREAMED = " || ".join(
    f"{value(f'storage.model.{at}.load', repr('copy'))} == 'stream'" for at in ("objectStore", "mirror.to.objectStore")
)
_STARTUP_PLAN = f"{value('storage.caches.startupPlan', 'false')}"
_NO_AZURE = "azure://, abfss:// and az:// are not supported"
_ENDPOINT = CelRule(
    f"!has(self.endpoint) || {matches('self.endpoint', patterns.ENDPOINT)}",
    "is not a valid address, such as http://minio:9000 (without credentials)",
    ".endpoint",
)
_SECRET = given_name("secret", "expected the name of a Secret: lower-case letters, digits, '-' and '.'")
_ANONYMOUS = CelRule(
    unless(value("anonymous", "false"), "secret"), "cannot be combined with a secret: remove one of them", ".anonymous"
)
_SOURCE = value("from", repr(model_storage.HUB))
_TARGET = "self.to.objectStore.uri"

STORAGE: CelRules = {
    model_storage.NewClaim: (
        CelRule(
            "!has(self.size) || self.size == 'auto' || self.size.matches('[1-9]')", "must be greater than 0", ".size"
        ),
        CelRule(
            "!has(self.accessModes) || !('ReadWriteOncePod' in self.accessModes)",
            "ReadWriteOncePod is mounted by one pod, and head and workers are several",
            ".accessModes",
        ),
        CelRule(
            "!has(self.accessModes) || self.accessModes.exists(mode, mode != 'ReadOnlyMany')",
            "ReadOnlyMany cannot be written to, and a claim that is created is empty",
            ".accessModes",
        ),
    ),
    model_storage.ObjectStore: (
        CelRule(
            matches("self.uri", patterns.BUCKET_FOLDER),
            f"is not a folder of a bucket, such as s3://bucket/folder or gs://bucket/folder; {_NO_AZURE}",
            ".uri",
        ),
        CelRule(
            unless("!self.uri.startsWith('s3://')", "endpoint", "region"),
            "endpoint and region have an effect with s3:// only",
        ),
        _ENDPOINT,
        _SECRET,
        _ANONYMOUS,
    ),
    model_storage.MirrorTarget: (
        CelRule(f"{count_of(('claim', 'objectStore'))} == 1", "must have exactly one of claim, objectStore"),
        CelRule(
            by_default("objectStore.anonymous", "false"),
            "cannot be combined with a mirror, which takes credentials to write",
            ".objectStore.anonymous",
        ),
    ),
    model_storage.Mirror: (
        CelRule(
            f"{_SOURCE} == '{model_storage.HUB}' || {matches('self.from', patterns.BUCKET_FOLDER)} || "
            f"{matches('self.from', patterns.WEB_FOLDER)}",
            f"is not hf, s3://bucket/folder, gs://bucket/folder or https://host/folder/; {_NO_AZURE}",
            ".from",
        ),
        CelRule(
            unless(f"!{_SOURCE}.startsWith('s3://')", "endpoint", "region"),
            "endpoint and region have an effect with s3:// only",
        ),
        CelRule(
            f"{_SOURCE}.matches('^(s3|gs)://') || (!has(self.secret) && {by_default('anonymous', 'false')})",
            "secret and anonymous have an effect with s3:// and gs:// only",
        ),
        CelRule(
            f"!has(self.from) || !has(self.to.objectStore) || (self.from != {_TARGET} && "
            f"!self.from.startsWith({_TARGET} + '/') && !{_TARGET}.startsWith(self.from + '/'))",
            "overlaps with the folder from which the mirror reads",
            ".to.objectStore.uri",
        ),
        _ENDPOINT,
        _SECRET,
        _ANONYMOUS,
    ),
    model_storage.ModelStorage: (
        CelRule(
            f"{count_of(('hub', 'claim', 'mirror', 'objectStore', 'image'))} == 1",
            "must have exactly one of hub, claim, mirror, objectStore, image",
        ),
    ),
    model_storage.Caches: (
        CelRule("has(self.compile)", "required: the PersistentVolumeClaim that holds the caches", ".compile"),
    ),
}


def storage_rules() -> Iterator[CelRule]:
    """What contradicts the storage of a service or of a batch job."""
    yield CelRule(
        unless(_MODEL, "model.path"), "cannot be combined with storage.model, which provides the files", ".model.path"
    )
    yield CelRule(
        f"!({_MODEL}) || {_FROM_HUB} || !({has('model.revision')})",
        "has no effect with this storage.model: only the Hugging Face Hub has revisions",
        ".model.revision",
    )
    given = f"{has(f'engine.args.{FORMAT}')}"
    yield CelRule(
        f"!({_STREAMED}) || !({given}) || self.engine.args.{FORMAT} in ['{STREAMER}', '{SHARDED_STREAMER}']",
        f"cannot be combined with load: stream, for which it is {STREAMER} or {SHARDED_STREAMER}",
        ARGS,
    )
    yield CelRule(
        unless(_MODEL, f"engine.args.{DOWNLOADS}"),
        f"{DOWNLOADS} cannot be combined with storage.model, which has the files",
        ARGS,
    )
    yield CelRule(f"!({_STARTUP_PLAN}) || !({ON_CPU})", OF_CPUS, ".storage.caches.startupPlan")
    yield CelRule(
        unless(_STARTUP_PLAN, "engine.args.kv_cache_memory_bytes"),
        "has no effect with the engine argument kv_cache_memory_bytes, which says what it would find",
        ".storage.caches.startupPlan",
    )
    for section, name in _CLAIMS.items():
        yield CelRule(
            f"!({has('storage.caches.compile')} && {has(f'storage.model.{section}')}) || "
            f"self.storage.caches.compile != self.storage.model.{section}.{name}",
            "is also a claim of storage.model, and pods that have a claim as two volumes do not start",
            ".storage.caches.compile",
        )
    yield from _mounts()


def _mounts() -> Iterator[CelRule]:
    """Volumes and variables in the place of those of the storage."""
    volumes = has("storage.volumes")
    names = ", ".join(map(repr, VOLUME_NAMES))
    mounted = {MODELS_PATH: f"({_MODEL}) && !({_STREAMED})", CACHES_PATH: _CACHES}
    yield CelRule(
        f"!({volumes}) || !(({mounted[MODELS_PATH]}) || ({_CACHES})) || "
        f"self.storage.volumes.all(one, !(one.name in [{names}]))",
        "one has the name of a volume of model storage or caches",
        ".storage.volumes",
    )
    for folder, condition in mounted.items():
        yield CelRule(
            f"!({volumes}) || !({condition}) || self.storage.volumes.all(one, one.mountPath != '{folder}' && "
            f"!one.mountPath.startsWith('{folder}/'))",
            f"one is mounted at or below {folder}, where model storage or caches are",
            ".storage.volumes",
        )
    for condition, variables in ((has("storage.model.hub"), HUB_VARIABLES), (_CACHES, CACHE_VARIABLES)):
        listed = ", ".join(map(repr, variables))
        yield CelRule(
            f"!({condition}) || !({has('engine.env')}) || ![{listed}].exists(name, name in self.engine.env)",
            f"has a variable that the storage sets: one of {', '.join(variables)}",
            ".engine.env",
        )
        for pod in ("head", "worker"):
            yield CelRule(
                f"!({condition}) || !({has(f'pods.{pod}.env')}) || self.pods.{pod}.env.all(one, "
                f"!(one.name in [{listed}]))",
                f"has a variable that the storage sets: one of {', '.join(variables)}",
                f".pods.{pod}.env",
            )


def service_storage_rules() -> Iterator[CelRule]:
    """What contradicts the storage of a service, beside `storage_rules`."""
    several = some("models")
    kinds = "has(one.engine) && has(one.engine.kind) && one.engine.kind == 'transformers'"
    yield CelRule(
        f"!({_STREAMED}) || !({ON_TRANSFORMERS} || (({several}) && self.models.exists(one, {kinds})))",
        "load: stream requires engine kind vllm: Transformers reads files from a disk",
        _AT,
    )
    yield CelRule(
        f"!({_CACHES}) || !({ON_TRANSFORMERS})",
        "has no effect: engine kind transformers keeps no compiled graphs",
        ".storage.caches",
    )
    yield CelRule(
        f"!({several} && {_MODEL}) || {_FROM_HUB}",
        "names the files of one model, and models lists several: hub, or mirror with from: hf",
        _AT,
    )
    yield CelRule(
        unless(several, "storage.model.mirror.to.claim.path"),
        "names the folder of one model, and models lists several",
        f"{_AT}.mirror.to.claim.path",
    )
    yield CelRule(
        f"!({several} && {_MODEL}) || self.models.all(one, !has(one.path))",
        "path cannot be combined with storage.model, which provides the files",
        ".models",
    )
    nodes = (
        f"({several}) || {value('replicas.max', '1')} > 1 || {value('replicas.count', '1')} > 1 || "
        f"{value('parallelism.pipeline', '1')} > 1 || {value('parallelism.acrossNodes', 'false')} || "
        f"({has('gateway')}) || ({some('model.adapters')}) || ({some('applications')}) || {ON_TRANSFORMERS} || "
        f"({some('workerGroups')})"
    )
    pinned = f"{has('scheduling.nodeSelector')} && '{HOSTNAME}' in self.scheduling.nodeSelector"
    for at in (
        *(f"storage.model.{section}.create" for section in _CLAIMS if section != "claim"),
        "storage.caches.create",
    ):
        once = f"{has(f'{at}.accessModes')} && !('ReadWriteMany' in self.{at}.accessModes)"
        yield CelRule(
            f"!({once}) || ({pinned}) || !({nodes})",
            "ReadWriteOnce is mounted on one node, and the pods need more than one: ReadWriteMany",
            f".{at}.accessModes",
        )
