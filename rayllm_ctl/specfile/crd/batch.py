"""Rules of a BatchJob, in CEL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rayllm_ctl.model.spec.batch import (
    ADDED_COLUMNS,
    SETTINGS_PATH,
    SETTINGS_VOLUME,
    BatchJob,
    BatchModel,
    BatchStorage,
    Concurrency,
    Input,
    Job,
    Output,
    Prompt,
    Sampling,
)
from rayllm_ctl.model.spec.checks.batch import NO_COLUMN, ONE_ANSWER, PARAMETER, SAMPLING_FIELDS
from rayllm_ctl.model.spec.checks.batch_files import ANONYMOUS, COMPRESSED
from rayllm_ctl.model.spec.gateway import SERVING_PATH
from rayllm_ctl.model.spec.service import Engine
from rayllm_ctl.model.text.patterns import ENDPOINT
from rayllm_ctl.specfile.crd.model import ALSO_NAMED, args_named, forbidden, named_keys, of_one_model
from rayllm_ctl.specfile.crd.rule import CelRule, CelRules, by_default, count_of, has, some, unless, value
from rayllm_ctl.specfile.crd.schema import Schema
from rayllm_ctl.specfile.crd.service import pods
from rayllm_ctl.specfile.crd.shapes import POSITIVE, WHOLE_SECONDS, given_name, matches
from rayllm_ctl.specfile.crd.storage import storage_rules

_POOL = has("cluster")
_TASK = value("task", "'generate'")
_CHAT = f"(has(self.prompt.chat) ? self.prompt.chat : {_TASK} == 'generate')"
_FORMAT = value("input.format", "''")
_VOLUMES = has("storage.volumes")
_CREDENTIALS = "://[^/?#]*:[^/?#]+@"
_NO_CREDENTIALS = "contains credentials: spec.storage.credentialsSecret"
_COMPRESSED = "|".join(ending.replace(".", "[.]") for ending in COMPRESSED)
_ARGS = tuple(sorted({*args_named("rayservice"), "enable_lora", "task_type"}))


def _job() -> Iterator[CelRule]:
    yield CelRule(f"{value('engine.kind', repr('vllm'))} == 'vllm'", "batch jobs run vLLM", ".engine.kind")
    yield CelRule(f"!has(self.sampling) || {_TASK} == 'generate'", "applies to task generate only", ".sampling")
    yield CelRule(
        unless(some("input.prompts"), "load.rows"), "is known: it is the number of input.prompts", ".load.rows"
    )
    yield CelRule(
        f"{_FORMAT} == 'openai' || {value('output.format', repr(''))} != 'openai'",
        "openai requires input.format: openai",
        ".output.format",
    )
    yield CelRule(unless(f"{_FORMAT} == 'openai'", "prompt"), "does not apply to input.format: openai", ".prompt")
    yield CelRule(unless(f"{_FORMAT} == 'openai'", "model.adapter"), "does not apply to input.format: openai", ".model")
    yield CelRule(
        f"!({has('prompt')}) || {_CHAT} || "
        "!(has(self.prompt.system) || (has(self.prompt.messages) && size(self.prompt.messages) > 0))",
        "system and messages require the model's chat template: chat: true",
        ".prompt",
    )
    yield CelRule(
        f"!({_VOLUMES}) || self.storage.volumes.all(one, !(one.name in ['{SETTINGS_VOLUME}', 'serving']) && "
        f"!(one.mountPath in ['{SETTINGS_PATH}', '{SERVING_PATH}']))",
        "one has the name or the path of the job's own files",
        ".storage.volumes",
    )
    yield CelRule(
        f"{by_default('storage.anonymous', 'false')} || !(self.output.path.startsWith('s3://') || "
        "self.output.path.startsWith('gs://'))",
        "cannot be combined with an output in an object store, which takes credentials to write",
        ".storage.anonymous",
    )


def _pool() -> Iterator[CelRule]:
    """What a job cannot say of pods that are there already."""
    yield CelRule(
        f"!({_POOL}) || {value('accelerator.kind', repr('gpu'))} == 'cpu' || {has('accelerator.gpu')}",
        "required with cluster: the GPU type of its workers",
        ".accelerator.gpu",
    )
    for field in (
        "storage.volumes[]",
        "storage.model",
        "storage.caches",
        "storage.credentialsSecret",
        "model.tokenSecret",
    ):
        name = field.removesuffix("[]")
        yield CelRule(
            unless(_POOL, field), "does not apply with cluster: the pods of that RayCluster are as they are", f".{name}"
        )
    yield CelRule(
        f"!({_POOL}) || {by_default('suspend', 'false')}",
        "cannot be combined with cluster: KubeRay suspends a job by deleting its Ray cluster",
        ".suspend",
    )
    yield CelRule(
        f"!({_POOL}) || {value('job.retries', '0')} == 0",
        "must be 0 with cluster: KubeRay retries a job on a new Ray cluster only",
        ".job.retries",
    )


BATCH_RULES: CelRules = {
    BatchJob: (*_job(), *_pool(), *pods(), *of_one_model(), *forbidden(_ARGS), *storage_rules()),
    BatchModel: (
        CelRule(
            unless(has("path"), "revision"),
            "cannot be combined with path: only the Hugging Face Hub has revisions",
            ".revision",
        ),
        CelRule(unless("!has(self.loraPath)", "adapter"), "requires loraPath", ".adapter"),
        CelRule(f"!has(self.loraPath) || !self.loraPath.matches('{_CREDENTIALS}')", _NO_CREDENTIALS, ".loraPath"),
        CelRule(
            "!has(self.loraPath) || self.loraPath.startsWith('/') || self.loraPath.matches('^(s3|gs)://')",
            "is neither an absolute path of a directory nor a folder of an object store, such as s3://bucket/adapters",
            ".loraPath",
        ),
        CelRule(
            r"!has(self.adapter) || !(self.adapter in ['', '.', '..'] || self.adapter.matches(r'[/\\]'))",
            "is not the name of a subfolder of loraPath",
            ".adapter",
        ),
        CelRule("!has(self.adapter) || self.adapter != self.id", "is the name of the model itself", ".adapter"),
    ),
    Input: (
        CelRule(f"({some('paths')}) != ({some('prompts')})", "expected either paths or prompts"),
        CelRule(
            f"!({some('prompts')}) || {value('format', repr('text'))} == 'text'",
            "must be text for prompts in the spec",
            ".format",
        ),
        CelRule(
            "!has(self.paths) || self.paths.all(path, path.startsWith('/') || path.matches('^(s3|gs|https)://[^/]'))",
            "must be absolute paths below mounted volumes, or s3://, gs:// or https:// addresses",
            ".paths",
        ),
        CelRule(
            f"!has(self.paths) || !self.paths.exists(path, path.matches('{_CREDENTIALS}'))", _NO_CREDENTIALS, ".paths"
        ),
        CelRule(
            "!has(self.paths) || !self.paths.exists(path, path.startsWith('https://') && path.contains('*'))",
            "an https:// address names one file: a web server does not list its files",
            ".paths",
        ),
        CelRule(
            f"!has(self.paths) || !self.paths.exists(path, path.matches('({_COMPRESSED})$'))",
            "has a compressed file: decompress it",
            ".paths",
        ),
    ),
    Prompt: (
        CelRule(
            f"{count_of(('template', 'column', 'messages'))} <= 1", "must have one of template, column and messages"
        ),
        CelRule(unless(some("messages"), "system"), "cannot be combined with messages", ".system"),
    ),
    Output: (
        CelRule(
            "self.path.startsWith('/') || self.path.matches('^(s3|gs)://[^/]')",
            "must be an absolute path below a mounted volume, or s3:// or gs:// and a bucket",
            ".path",
        ),
        CelRule(f"!self.path.matches('{_CREDENTIALS}')", _NO_CREDENTIALS, ".path"),
        CelRule("!self.path.matches('[*?[]')", "must be one folder, not a glob", ".path"),
        CelRule(
            f"!self.path.contains('://{ANONYMOUS}')",
            f"{ANONYMOUS} is for reading: writing to an object store takes credentials",
            ".path",
        ),
    ),
    (Output, "columns"): (
        CelRule(
            f"self.all(name, name in [{', '.join(map(repr, ADDED_COLUMNS))}])",
            f"has a name that is not of an added column ({', '.join(ADDED_COLUMNS)})",
        ),
    ),
    (Sampling, "columns"): (
        CelRule(
            f"![{', '.join(map(repr, (*ONE_ANSWER, *NO_COLUMN)))}].exists(name, name in self)",
            f"{', '.join((*ONE_ANSWER, *NO_COLUMN))} are not supported in a batch job",
        ),
        CelRule(f"self.all(name, {matches('name', PARAMETER)})", "not a valid name of a sampling parameter"),
    ),
    Sampling: (
        CelRule(
            unless("has(self.args)", *(f"args.{name}" for name in SAMPLING_FIELDS)),
            f"{', '.join(SAMPLING_FIELDS)} have fields of their own",
            ".args",
        ),
        CelRule(
            unless("has(self.args)", *(f"args.{name}" for name in NO_COLUMN)),
            f"{', '.join(NO_COLUMN)} are not supported in a batch job: the output has no column for them",
            ".args",
        ),
    ),
    BatchStorage: (
        CelRule(
            f"!has(self.endpoint) || {matches('self.endpoint', ENDPOINT)}",
            "is not a valid address, such as http://minio:9000 (without credentials)",
            ".endpoint",
        ),
        given_name("credentialsSecret", "expected the name of a Secret: lower-case letters, digits, '-' and '.'"),
        CelRule(
            unless(f"{value('anonymous', 'false')}", "credentialsSecret"),
            "cannot be combined with credentialsSecret",
            ".anonymous",
        ),
    ),
    Concurrency: (CelRule(f"{value('min', '1')} <= {value('max', '1')}", "is greater than max", ".min"),),
    (Job, "deadline"): (POSITIVE, WHOLE_SECONDS),
    (Job, "keep_after"): (WHOLE_SECONDS,),
}

BATCH_ARGUMENTS: Mapping[tuple[type, str], Schema] = {
    (Engine, "args"): named_keys([*_ARGS, *ALSO_NAMED]),
    (Sampling, "args"): named_keys([*SAMPLING_FIELDS, *NO_COLUMN]),
}
"""Arguments of the engine and of sampling that rules name."""
