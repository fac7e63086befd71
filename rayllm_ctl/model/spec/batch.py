"""A BatchJob, as flags or a spec file state it. Unset (None): the planner decides.

A spec file has these fields in camelCase, with annotations as in rayllm_ctl.model.spec.service. Sections that a
service has as well have the same fields and meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.spec.form import LENGTHS, SECONDS, SecretKey
from rayllm_ctl.model.spec.model_storage import Caches, ModelStorage
from rayllm_ctl.model.spec.patches import Patch
from rayllm_ctl.model.spec.pod_options import Pods
from rayllm_ctl.model.spec.ray_options import RayOptions
from rayllm_ctl.model.spec.security import PodSecurity
from rayllm_ctl.model.spec.service import Accelerator, Engine, Parallelism, PodResources, Scheduling, Volume

BATCH_KIND = "BatchJob"

InputFormat = Literal["text", "jsonl", "csv", "parquet", "openai"]
OutputFormat = Literal["parquet", "jsonl", "openai"]
ColumnType = Literal["int", "float", "bool"]
Role = Literal["system", "user", "assistant"]
Task = Literal["generate", "embed", "classify"]

SETTINGS_PATH = "/etc/rayllm/batch"
SETTINGS_VOLUME = "batch-settings"
"""Where the driver of a job finds its settings.json, and the volume that contains it."""

ADDED_COLUMNS = ("answer", "finish_reason", "prompt_tokens", "completion_tokens", "error", "row_id")
"""The columns that a job adds to those of its input."""


@dataclass(frozen=True)
class BatchModel:
    """Which model answers."""

    id: Annotated[str, "Hugging Face name, or any name with `path`."]
    revision: Annotated[str | None, "Branch, tag or commit on the Hugging Face Hub."] = None
    path: Annotated[str | None, "Directory in the pods that contains the model, instead of the Hub."] = None
    token_secret: Annotated[SecretKey | None, "Secret with a Hugging Face token, for gated models."] = None
    lora_path: Annotated[str | None, "Folder whose subfolders are LoRA adapters: in the pods, or s3:// or gs://."] = (
        None
    )
    adapter: Annotated[
        str | None,
        "Subfolder of `loraPath` with the adapter that answers every row. Lines of OpenAI batch files name theirs as "
        "their model instead.",
    ] = None


@dataclass(frozen=True)
class Input:
    """Where the rows come from: files, or prompts in the spec itself."""

    format: Annotated[InputFormat | None, "Format of the files; from their extension by default."] = None
    paths: Annotated[
        tuple[str, ...], "Files, folders or globs: below a mounted volume, or s3://, gs://, https:// addresses."
    ] = ()
    prompts: Annotated[tuple[str, ...], "Prompts instead of files; at most 900 KiB in all."] = ()
    keep_empty_lines: Annotated[bool, "Whether empty lines of a text file are rows."] = False
    key_column: Annotated[str | None, "Column that identifies rows; by default their file and position do."] = None
    types: Annotated[
        Mapping[str, ColumnType], "Types of the columns of a CSV file; columns that are not listed are text."
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class Output:
    """Where the answers go."""

    path: Annotated[str, "Folder: below a mounted volume, or s3:// or gs://. It must be empty, or of the same job."]
    format: Annotated[OutputFormat | None, "Format of the parts; parquet, or openai for OpenAI batch files."] = None
    columns: Annotated[
        Mapping[str, str],
        "Other names for the added columns: answer, finish_reason, prompt_tokens, completion_tokens, error, row_id.",
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: Annotated[Role, "Who speaks."]
    content: Annotated[str, "Jinja template over the columns of the row."]


@dataclass(frozen=True)
class Prompt:
    """What the model is asked about a row: one of `template`, `column` and `messages`."""

    template: Annotated[
        str | None, "Jinja template over the columns of the row; lines of text have the column text."
    ] = None
    column: Annotated[str | None, "Column that contains the prompt."] = None
    messages: Annotated[tuple[Message, ...], "A whole chat, each message a template."] = ()
    system: Annotated[str | None, "System prompt, a template as well."] = None
    chat: Annotated[
        bool | None, "Put the prompt through the model's chat template; by default it is, where text is generated."
    ] = None
    chat_template_kwargs: Annotated[
        Mapping[str, Any], "Arguments of the chat template, as it names them: enable_thinking: false."
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class Sampling:
    """How answers are generated, for all rows."""

    max_tokens: Annotated[int | None, "Maximum number of tokens of an answer."] = None
    temperature: Annotated[float | None, "Randomness; 0 always takes the most likely token."] = None
    top_p: Annotated[float | None, "Share of probability from which tokens are taken."] = None
    top_k: Annotated[int | None, "Number of most likely tokens from which one is taken."] = None
    seed: Annotated[int | None, "Seed of the random numbers."] = None
    stop: Annotated[tuple[str, ...], "Texts that end an answer."] = ()
    args: Annotated[Mapping[str, Any], "Further sampling parameters by their vLLM name."] = field(default_factory=dict)
    columns: Annotated[
        Mapping[str, str], "Parameters that differ by row: vLLM's name of the parameter, and the column with its value."
    ] = field(default_factory=dict)
    json_schema: Annotated[Mapping[str, Any] | None, "JSON schema that every answer follows."] = None


@dataclass(frozen=True)
class BatchStorage:
    """Volumes of the pods, where the weights come from, caches, and access to the object store of input and output."""

    volumes: Annotated[tuple[Volume, ...], "Volumes that are mounted into head and workers."] = ()
    model: Annotated[ModelStorage | None, "Where the weights come from; by default each pod downloads them."] = None
    caches: Annotated[Caches | None, "What later starts find again."] = None
    endpoint: Annotated[str | None, "Address of a self-hosted S3 service: http://minio:9000."] = None
    region: Annotated[str | None, "Region of the buckets."] = None
    anonymous: Annotated[bool, "Read public buckets without credentials."] = False
    credentials_secret: Annotated[
        str | None, "Secret with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if needed, AWS_SESSION_TOKEN."
    ] = None


@dataclass(frozen=True)
class Concurrency:
    """How many replicas of the engine work at once; Ray Data starts them as long as rows wait."""

    min: Annotated[int, "Number of replicas at the start."] = 1
    max: Annotated[int, "Maximum number of replicas."] = 1


@dataclass(frozen=True)
class Job:
    """How the job runs, and when it has failed.

    deadline and keep_after are seconds.
    """

    max_errors: Annotated[int, "Number of rows with an error up to which the job succeeds."] = 0
    part_rows: Annotated[int, "Rows of one file of the output, which is written at once."] = 1000
    batch_size: Annotated[int | None, "Rows that are handed to a replica at a time, and come back together."] = None
    retries: Annotated[int | None, "How often the job is started again on a new Ray cluster; 2 by default."] = None
    deadline: Annotated[float | None, SECONDS, "Maximum run time; the job is stopped when it is reached."] = None
    keep_after: Annotated[
        float, SECONDS, "How long the Ray cluster is kept after the end of the job, for its dashboard and logs."
    ] = 60


@dataclass(frozen=True)
class BatchResources:
    """Sizes of the pods. What is left out is planned."""

    head: Annotated[PodResources, "The head pod, in which the job reads and writes."] = PodResources()
    worker: Annotated[PodResources, "Each worker pod."] = PodResources()


@dataclass(frozen=True)
class BatchSecurity:
    """Security of the pods."""

    pod_security: Annotated[
        PodSecurity,
        "Level of the Pod Security Standards that the pods satisfy. baseline: for images that must run as root. "
        "privileged: for hostPath volumes.",
    ] = "restricted"


@dataclass(frozen=True)
class BatchLoad:
    """The work to plan for: expected time and cost follow from it. None of it is rendered."""

    rows: Annotated[int | None, "Number of rows of the input."] = None
    input_tokens: Annotated[int | str | None, LENGTHS, "Average tokens of a prompt, or their distribution."] = None
    output_tokens: Annotated[
        int | str | None, LENGTHS, "Average tokens of an answer, or their distribution; sampling.maxTokens by default."
    ] = None


@dataclass(frozen=True)
class BatchJob:
    """Rows of a file in, one answer per row out, computed by vLLM on a Ray cluster that comes and goes with the job."""

    name: Annotated[str, "Name of the job: a DNS-1035 label of at most 47 characters."]
    model: BatchModel
    input: Input
    output: Output
    namespace: Annotated[str | None, "Namespace; by default that of the kubeconfig context."] = None
    task: Annotated[Task, "generate: text. embed: embeddings. classify: classes."] = "generate"
    prompt: Prompt = Prompt()
    sampling: Sampling = Sampling()
    concurrency: Concurrency = Concurrency()
    job: Job = Job()
    cluster: Annotated[str | None, "An existing RayCluster to run on, instead of one of the job's own."] = None
    engine: Engine = Engine()
    accelerator: Accelerator = Accelerator()
    parallelism: Parallelism = Parallelism()
    storage: BatchStorage = BatchStorage()
    scheduling: Scheduling = Scheduling()
    resources: BatchResources = BatchResources()
    pods: Pods = Pods()
    security: BatchSecurity = BatchSecurity()
    load: BatchLoad = BatchLoad()
    ray: RayOptions = RayOptions()
    patches: Annotated[tuple[Patch, ...], "Changes of the rendered objects, applied last."] = ()
    suspend: Annotated[
        bool, "Start no pods before this is false. A job that runs loses its Ray cluster, and continues on a new one."
    ] = False
    plan_only: Annotated[
        bool, "Have the controller plan the job, show the plan in the status and apply nothing. `submit` rejects it."
    ] = False
