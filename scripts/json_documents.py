"""The documents that commands print with -o json and -o yaml, as types: scripts/json_schemas.py makes the schemas."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from rayllm_ctl.console.setup.config import SettingRow
from rayllm_ctl.loadtest.settings import API, Arrivals
from rayllm_ctl.model.bench.load import Comparison
from rayllm_ctl.model.bench.sweep import VariantState
from rayllm_ctl.model.events import Applied
from rayllm_ctl.model.observed.batch_status import BatchHealth
from rayllm_ctl.model.observed.changes import Action, Effect, Explanation
from rayllm_ctl.model.observed.checks import Check
from rayllm_ctl.model.observed.health import Health
from rayllm_ctl.model.observed.model_downloads import ModelDownload
from rayllm_ctl.model.observed.service_events import ServiceEvent
from rayllm_ctl.model.observed.top import ServiceLoad
from rayllm_ctl.model.plan.batch import BatchPlan
from rayllm_ctl.model.plan.catalog import ModelDetails, ModelSummary
from rayllm_ctl.model.plan.hardware import GPU
from rayllm_ctl.model.plan.plan import Plan, Reason, Verdict
from rayllm_ctl.model.plan.totals import Totals
from rayllm_ctl.model.spec.api_keys import ApiKey
from rayllm_ctl.workflows.access.chat import Endpoint
from rayllm_ctl.workflows.access.endpoint import Applications, External
from rayllm_ctl.workflows.batch.status import JobRow
from rayllm_ctl.workflows.observe.status import ServiceRow
from rayllm_ctl.workflows.rollout.shipped_code import Shipped
from rayllm_ctl.workflows.setup.versions import Versions


@dataclass(frozen=True)
class Merged:
    """An object with the fields of several types."""

    name: str
    parts: tuple[type, ...]


class Named(TypedDict):
    """A service or a batch job."""

    name: str
    namespace: str


class Rollout(TypedDict):
    """The objects that were written, in their order, and the last known health; null if nothing was waited for.

    downloads: the models that Jobs downloaded before; missing if there was none.
    """

    applied: list[Applied]
    health: Health | None
    downloads: NotRequired[list[ModelDownload]]


class WaitResult(TypedDict):
    """The condition that was waited for, and the health when it held."""

    name: str
    namespace: str
    condition: str
    elapsedSeconds: float
    health: Health


class CheckResult(TypedDict):
    """All checks; ok: whether none failed."""

    ok: bool
    checks: list[Check]


class VersionCode(TypedDict):
    """Code that the pods of the named service mount."""

    code: NotRequired[list[Shipped]]


class NewKey(TypedDict):
    """An API key, which is shown once, and the Secret that holds its hash."""

    key: str
    secret: str
    namespace: str


class RevokedKey(TypedDict):
    """A key that was removed from a Secret."""

    name: str
    secret: str
    namespace: str


class RevisionRow(TypedDict):
    """A revision: its number, time and author, what changed, and the outcome."""

    revision: int
    when: str
    who: str
    change: str
    outcome: str


class DiffObject(TypedDict):
    """An object that changes. diff: in the format of kubectl diff."""

    apiVersion: str
    kind: str
    name: str
    namespace: str
    action: Action
    outage: bool
    diff: str


class DiffResult(TypedDict):
    """The differences, and the effects of all of them."""

    differences: bool
    notes: list[str]
    outage: bool
    effects: list[Effect]
    objects: list[Annotated[Any, Merged("ChangedObject", (DiffObject, Explanation))]]


class PlannedName(TypedDict):
    """The short name of a model."""

    name: str


class SeveralPlans(TypedDict):
    """The plan of each model of a service, and the sums. totals: null if the service does not run."""

    verdict: Verdict
    reasons: list[Reason]
    models: list[Annotated[Any, Merged("ModelPlan", (PlannedName, Plan))]]
    totals: Totals | None
    notes: list[str]


class ExplainedField(TypedDict):
    """A field of the spec file. fields: those below it; below them only with --recursive."""

    path: str
    type: str
    description: str
    required: bool
    default: str | None
    values: list[str]
    flag: str | None
    fields: list["ExplainedField"]


class SpecKind(TypedDict):
    """The kind of spec file that has the field."""

    specKind: Literal["LLMService", "BatchJob"]


class BenchDistribution(TypedDict):
    """Mean, percentiles and largest value."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


class BenchLoad(TypedDict):
    """How many requests, and when; either concurrency or rate (requests per second)."""

    concurrency: NotRequired[int]
    rate: NotRequired[float]
    arrivals: Arrivals
    burst: int
    requests: NotRequired[int]
    durationSeconds: NotRequired[float]
    rampSeconds: float
    warmup: int
    timeoutSeconds: float


class BenchRequests(TypedDict):
    """Numbers of requests."""

    total: int
    succeeded: int
    failed: int
    unfinished: int


class BenchThroughput(TypedDict):
    """Rates over the whole load."""

    requestsPerSecond: float
    inputTokensPerSecond: float
    outputTokensPerSecond: float


class BenchTokens(TypedDict):
    """Numbers of tokens, and who counted them."""

    input: int
    output: int
    countedBy: Literal["usage", "tokenizer", "none", "mixed"] | None


class BenchLatencies(TypedDict):
    """Time to first token, per output token, between tokens, and end to end."""

    ttft: BenchDistribution | None
    tpot: BenchDistribution | None
    itl: BenchDistribution | None
    e2e: BenchDistribution | None


class HistogramBar(TypedDict):
    """Requests whose end-to-end time is at most upToSeconds, and more than that of the bar before."""

    upToSeconds: float
    count: int


class TimelineSecond(TypedDict):
    """What ended in one second."""

    succeeded: int
    failed: int
    outputTokens: int


class RequestSamples(TypedDict):
    """Single requests, in columns. begin, ttft, tpot, e2e: seconds; begin from the first request. itl: gaps between
    chunks of all requests, in seconds, from the shortest."""

    begin: list[float]
    ttft: list[float | None]
    tpot: list[float | None]
    e2e: list[float]
    outputTokens: list[int | None]
    itl: list[float]


class BenchGenerator(TypedDict):
    """The load generator itself. cpuShare: of one core. saturated: its figures are not the server's alone."""

    cpuShare: float
    lateSeconds: BenchDistribution | None
    saturated: bool
    lateStartSeconds: NotRequired[BenchDistribution | None]


class BenchLimits(TypedDict):
    """Limits that an answer should keep, and the share of requests that has to."""

    ttftSeconds: NotRequired[float]
    tpotSeconds: NotRequired[float]
    itlSeconds: NotRequired[float]
    e2eSeconds: NotRequired[float]
    share: float


class BenchGoodput(TypedDict):
    """Requests that kept the limits."""

    objective: BenchLimits
    requests: int
    requestsPerSecond: float
    share: float
    met: bool


class TokenLengths(TypedDict):
    """A distribution of numbers of tokens."""

    kind: Literal["fixed", "uniform", "lognormal"]
    low: int
    high: NotRequired[int]
    sigma: NotRequired[float]


class BenchPrompts(TypedDict):
    """The content of the requests: made up with given lengths, or rows of a file, known by their digest."""

    input: NotRequired[TokenLengths]
    output: TokenLengths | None
    prefix: NotRequired[int]
    prefixes: NotRequired[int]
    seed: NotRequired[int]
    rows: NotRequired[int]
    sha256: NotRequired[str]
    tokenizer: NotRequired[str | None]


class RequestForm(TypedDict):
    """The form of the requests. fields: those that each has in addition."""

    api: API
    stream: bool
    fields: dict[str, Any]


class ServiceSample(TypedDict):
    """The service at one moment; null: unknown. queued: requests that wait in the gateway."""

    atSeconds: float
    replicas: int | None
    wanted: int | None
    running: int | None
    waiting: int | None
    kvCacheUsage: float | None
    preemptions: int | None
    queued: int | None


Scaling = TypedDict("Scaling", {"atSeconds": float, "from": int, "to": int})
Scaling.__doc__ = "A change of the number of replicas."


class LargestValues(TypedDict):
    """The largest value of each figure during the load; null: unknown."""

    replicas: int | None
    wanted: int | None
    running: float | None
    waiting: float | None
    kvCacheUsage: float | None
    preemptions: int | None
    queued: int | None


class MeasuredService(TypedDict):
    """The service during the load."""

    samples: list[ServiceSample]
    scaling: list[Scaling]
    max: LargestValues
    problems: list[str]


class PredictedPlan(TypedDict):
    """What the prediction is for."""

    model: str
    gpu: str
    tensor: int
    pipeline: int
    vllmVersion: str
    quantization: NotRequired[str]
    kvCacheDtype: NotRequired[str]
    replicas: int
    inputTokens: int
    outputTokens: int


class Compared(TypedDict):
    """A figure as planned and as measured; ratio: measured to predicted."""

    predicted: float
    measured: float
    ratio: float


class Predicted(TypedDict):
    """The figures of the plan next to the measured ones."""

    plan: PredictedPlan
    requestsPerSecond: Compared | None
    outputTokensPerSecond: Compared | None
    ttftSeconds: Compared | None
    tpotSeconds: Compared | None
    kvCacheBytes: NotRequired[Compared]


class BenchRun(TypedDict):
    """The result of one load. errorMessages: one for each kind of error."""

    startedAt: datetime
    prompts: BenchPrompts
    request: RequestForm
    versions: Mapping[str, str | None]
    load: BenchLoad
    requests: BenchRequests
    durationSeconds: float
    throughput: BenchThroughput
    tokens: BenchTokens
    latencySeconds: BenchLatencies
    histogram: list[HistogramBar]
    timeline: list[TimelineSecond]
    samples: RequestSamples
    errors: dict[str, int]
    errorMessages: dict[str, str]
    generator: BenchGenerator
    interrupted: bool
    goodput: NotRequired[BenchGoodput]
    service: MeasuredService | None
    predicted: Predicted | None
    notPredicted: NotRequired[str]


class Bench(TypedDict):
    """The results of all loads. highestRate: of --find-max, the highest rate that kept the limits; null: none did."""

    target: str
    models: list[str]
    highestRate: NotRequired[float | None]
    runs: list[BenchRun]


class GPURange(TypedDict):
    """GPUs at the fewest and at the most replicas."""

    min: int
    max: int


class VariantReason(TypedDict):
    """Why a variant was rejected or failed."""

    code: str
    message: str


class SweepVariant(TypedDict):
    """A variant of a sweep. spec: its spec file; load: the settings of the load."""

    variant: str
    values: dict[str, Any]
    state: VariantState
    spec: dict[str, Any]
    load: dict[str, Any]
    reason: VariantReason | None
    gpus: GPURange | None
    startupSeconds: float | None
    result: Bench | None


class Sweep(TypedDict):
    """The variants of a service. vary: the names of the varied fields."""

    service: str
    vary: list[str]
    variants: list[SweepVariant]
    interrupted: bool


class OfflineLoadFigures(TypedDict):
    """What vLLM's benchmarks ran."""

    inputTokens: int
    outputTokens: int
    requests: int
    batch: int
    repeats: int
    warmup: int


class BatchLatency(TypedDict):
    """Latency of a batch."""

    mean: float
    p50: float
    p90: float
    p99: float


class Offline(TypedDict):
    """The figures of vLLM's own benchmarks; null: not measured."""

    model: str
    gpus: str
    startedAt: datetime
    versions: Mapping[str, str | None]
    load: OfflineLoadFigures
    durationSeconds: float | None
    throughput: BenchThroughput | None
    batchLatencySeconds: BatchLatency | None
    interrupted: bool


class Settings(TypedDict):
    """The defaults of flags. file: the path of the configuration file, which need not exist; null without a home."""

    file: str | None
    settings: list[SettingRow]


class Comparisons(TypedDict):
    """The comparison of each load."""

    comparisons: list[Comparison]


@dataclass(frozen=True)
class Document:
    """A kind of document. parts: the types whose fields it has. items: of a list, the parts of an item."""

    commands: str
    parts: tuple[type, ...] = ()
    items: tuple[type, ...] = ()


_CHANGES = (
    "deploy, apply, fetch, scale, restart, suspend, resume, rollback, rerender, adopt, release, delete, batch cancel, "
)

DOCUMENTS: dict[str, Document] = {
    "Plan": Document("plan, of a service of one model", (Plan,)),
    "MultiModelPlan": Document("plan, of a service of several models", (SeveralPlans,)),
    "BatchPlan": Document("plan -f, of a BatchJob", (BatchPlan,)),
    "Model": Document("models NAME", (ModelDetails,)),
    "ModelList": Document("models", items=(ModelSummary,)),
    "GPU": Document("gpus NAME", (GPU,)),
    "GPUList": Document("gpus", items=(GPU,)),
    "FieldExplanation": Document("explain", (SpecKind, ExplainedField)),
    "Rollout": Document(f"{_CHANGES}batch resume, batch submit --no-wait", (Rollout,)),
    "Diff": Document("diff", (DiffResult,)),
    "RevisionList": Document("history", items=(RevisionRow,)),
    "ServiceStatus": Document(
        "status NAME; status --from PATH; watch and status NAME --watch, one for each change", (Named, Health)
    ),
    "ServiceStatusList": Document("status; status --watch, one for each change", items=(ServiceRow,)),
    "ServiceLoad": Document("top; top --watch, one for each reading", (ServiceLoad,)),
    "WaitResult": Document("wait", (WaitResult,)),
    "EventList": Document("events", items=(ServiceEvent,)),
    "Event": Document("events --follow, one for each event", (ServiceEvent,)),
    "Endpoint": Document("endpoint", (Endpoint, External)),
    "ApplicationEndpoints": Document("endpoint, of a Serve configuration without models", (Applications,)),
    "ApiKey": Document("keys create", (NewKey, ApiKey)),
    "ApiKeyList": Document("keys list", items=(ApiKey,)),
    "RevokedApiKey": Document("keys revoke", (RevokedKey,)),
    "Settings": Document("config view", (Settings,)),
    "CheckResult": Document("check", (CheckResult,)),
    "Version": Document("version", (Versions, VersionCode)),
    "BatchJobStatus": Document("batch status; batch watch and batch submit, one for each change", (Named, BatchHealth)),
    "BatchJobStatusList": Document("batch list", items=(JobRow,)),
    "BenchResult": Document("bench run", (Bench,)),
    "BenchComparison": Document("bench compare", (Comparisons,)),
    "BenchSweep": Document("bench sweep", (Sweep,)),
    "OfflineBenchResult": Document("bench offline", (Offline,)),
}
"""Every kind, and the commands that print it."""
