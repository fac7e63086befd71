"""Strategies for valid LLMServices, also with hostile text wherever text is free."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from rayllm_ctl.model.spec.checks.engine_args import DTYPES, KV_CACHE_DTYPES, holds_a_credential
from rayllm_ctl.model.spec.exposure import Exposure, Gateway, Ingress, ServiceType
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.gateway import CORS, Cleaning, Keys, Limits, Queue, Rates, Redis, Validation
from rayllm_ctl.model.spec.gateway import Bounds as GatewayBounds
from rayllm_ctl.model.spec.gateway import Gateway as APIGateway
from rayllm_ctl.model.spec.model_storage import (
    Caches,
    HubCache,
    Mirror,
    MirrorClaim,
    MirrorTarget,
    ModelClaim,
    ModelImage,
    ModelStorage,
    NewClaim,
    ObjectStore,
)
from rayllm_ctl.model.spec.operations import Availability, Monitor, Monitoring, PodDisruptionBudget
from rayllm_ctl.model.spec.pod_options import (
    AllOf,
    EnvironmentSource,
    EnvironmentVariable,
    FieldOf,
    KeyOf,
    ObjectName,
    PodOptions,
    Pods,
    ValueFrom,
)
from rayllm_ctl.model.spec.ray_options import (
    INCREMENTAL,
    Authentication,
    FaultTolerance,
    RayLogging,
    RayOptions,
    Upgrade,
)
from rayllm_ctl.model.spec.security import NetworkPeer, PodSecurity, Security
from rayllm_ctl.model.spec.service import (
    NO_MODEL,
    Accelerator,
    Adapter,
    Engine,
    ExtraWorkers,
    LLMService,
    Load,
    Model,
    ModelEngine,
    ModelEntry,
    Parallelism,
    PodResources,
    Replicas,
    Resources,
    Scheduling,
    Storage,
    Toleration,
    Volume,
    WorkerResources,
)
from rayllm_ctl.model.text.patterns import UNSENDABLE

TRAPS = ("y", "n", "on", "null", "~", "1e3", "0o17", "0x1f", "1_000", "12:30:45", "2026-01-01", ".inf", "=", "<<",
         "", " a ", "a: b", "a #b", "- a", "'", '"', "\\", "{{ x }}", "{% raw %}", "line\nline\n", "\ttab", "é",
         "\u2028", "\x85", "#", "&a", "*a", "!t", "%", "@", "`", "| x", "> x", "?", "[", "}", "true", "False",
         "😀")  # fmt: skip
"""Text that some YAML reader takes for something else, or that a template could stumble over."""

texts = st.one_of(
    st.sampled_from(TRAPS),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
).filter(lambda text: not holds_a_credential(text))
counts = st.integers(1, 100_000)
seconds = st.floats(0.001, 10_000, allow_nan=False)
labels = st.sampled_from(("y", "on", "null", "e3", "pool-1", "models"))
names = st.sampled_from(("y", "null", "e3", "qwen3-32b", "x" * 47))
paths = st.lists(labels, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
arguments = st.dictionaries(st.sampled_from(("y", "null", "max_loras", "hf_overrides", "seed")), values, max_size=4)
variables = st.dictionaries(
    st.sampled_from(("y", "NO", "_", "OMP_NUM_THREADS", "MAX_TOKENS", "e3")),
    texts.filter(lambda text: not UNSENDABLE.search(text)),
    max_size=4,
)


@lru_cache(1000)
def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """None or one of `strategy`. Kept, as Hypothesis keeps what its own functions make of equal arguments (tuples, not
    lists): each strategy that is made again in a draw is validated again, which takes longer than to draw from it."""
    return st.none() | strategy


tolerations = st.builds(Toleration, labels, maybe(st.just("on")), maybe(st.just("NoExecute")))


upgrades = st.sampled_from(
    [
        Upgrade(),
        Upgrade("None", deletion_delay=5.0),
        Upgrade("NewClusterWithIncrementalUpgrade", 50, 10, 30.0, "istio"),
    ]
)


@st.composite
def loads(draw: st.DrawFn) -> Load:
    given = draw(maybe(counts))
    return Load(
        objective=draw(maybe(st.sampled_from(("cost", "throughput", "latency")))),
        concurrency=draw(maybe(counts)),
        input_tokens=given,
        output_tokens=draw(maybe(counts)),
        cached_tokens=draw(st.integers(0, given - 1)) if given is not None and draw(st.booleans()) else None,
        ttft=draw(maybe(seconds)),
        tpot=draw(maybe(seconds)),
        rate=draw(maybe(seconds)),
    )


@st.composite
def ray_options(draw: st.DrawFn) -> RayOptions:
    tolerance = st.builds(FaultTolerance, st.sampled_from(("redis:6379", "rediss://r.example.com:1")),
                          maybe(st.builds(SecretKey, labels, st.just("password"))))  # fmt: skip
    logging = st.builds(
        RayLogging, maybe(st.just("JSON")), maybe(st.sampled_from(("64Mi", "1e6"))), maybe(st.integers(1, 9))
    )
    authentication = st.builds(Authentication, st.just("token"), maybe(labels)) | st.just(Authentication())
    return RayOptions(draw(authentication), draw(maybe(tolerance)), draw(logging), draw(maybe(st.just(90.0))))


@st.composite
def models(draw: st.DrawFn) -> Model:
    path = draw(maybe(paths))
    return Model(
        id=draw(st.sampled_from(("tiny", "Qwen/Qwen3-32B", "1e3", "null", "meta-llama/Llama-3.1-70B-Instruct"))),
        revision=None if path else draw(maybe(st.sampled_from(("main", "1e3", "0b1", "v1.0")))),
        path=path,
        token_secret=draw(maybe(st.builds(SecretKey, labels, st.sampled_from(("token", "y", ".npmrc"))))),
    )


@st.composite
def engines(draw: st.DrawFn, cpu: bool) -> Engine:
    seqs = draw(maybe(st.integers(1, 1024)))
    return Engine(
        image=draw(st.sampled_from(("r/a", "registry:5000/a/b:1.0", "rayproject/ray-llm:2.60.0-py312-cu130"))),
        vllm_version=draw(maybe(st.sampled_from(("0.29.0", "0.30", "0.10.1.1", "0.30.1rc1.dev2+g1a2b3c")))),
        ray_version=draw(maybe(st.sampled_from(("2.60.0", "2.61.0")))),
        max_model_len=draw(maybe(counts)),
        dtype=draw(maybe(st.sampled_from(DTYPES))),
        quantization=draw(maybe(st.sampled_from(("fp8", "awq")))),
        kv_cache_dtype=draw(maybe(st.sampled_from(KV_CACHE_DTYPES))),
        gpu_memory_utilization=None if cpu else draw(maybe(st.floats(0.01, 1))),
        max_num_seqs=seqs,
        max_num_batched_tokens=draw(maybe(st.integers(1024, 100_000))),
        args=draw(arguments),
        env=draw(variables),
    )


@st.composite
def volumes(draw: st.DrawFn) -> tuple[Volume, ...]:
    found = []
    for index, kind in enumerate(
        draw(st.lists(st.sampled_from(("persistent_volume_claim", "host_path", "config_map", "secret")), max_size=4))
    ):
        fixed = kind in ("config_map", "secret")
        # Another claim than those of models: pods must not have one as two volumes.
        source = draw(paths) if kind == "host_path" else f"data-{draw(labels)}"
        name, path = f"volume-{index}", f"/mnt/{index}{draw(paths)}"
        found.append(Volume(name, path, read_only=fixed or draw(st.booleans()), **{kind: source}))
    return tuple(found)


new_claims = st.builds(
    NewClaim,
    st.sampled_from(("auto", "1e12", "1.5Ti")),
    maybe(labels),
    st.sampled_from((("ReadWriteMany",), ("ReadWriteOnce", "ReadWriteMany"))),
)
claim_folders = maybe(st.sampled_from(("y", "Qwen/é漢", "a b/null")))
claims = st.builds(ModelClaim, labels, claim_folders)
mirror_claims = st.builds(MirrorClaim, labels, claim_folders, maybe(new_claims))
hub_caches = st.builds(lambda cache: ModelStorage(hub=cache), st.builds(HubCache, labels, maybe(new_claims)))
loads_of_buckets = st.sampled_from(("copy", "stream"))
s3_buckets = st.builds(
    ObjectStore, st.sampled_from(("s3://bucket", "s3://null/a=b/1e3/")), maybe(st.just("http://minio:9000")),
    maybe(st.just("eu-central-1")), secret=maybe(labels), load=loads_of_buckets,
)  # fmt: skip
public_buckets = st.builds(ObjectStore, st.just("gs://public/y"), anonymous=st.just(True), load=loads_of_buckets)
mirror_targets = st.builds(MirrorTarget, mirror_claims) | st.builds(MirrorTarget, st.none(), s3_buckets)
hub_mirrors = st.builds(lambda to: ModelStorage(mirror=Mirror(to)), mirror_targets)
other_mirrors = st.builds(
    lambda to, source: ModelStorage(mirror=replace(source, to=to)),
    mirror_targets,
    st.sampled_from((
        Mirror(MirrorTarget(), "gs://source/y", anonymous=True),
        Mirror(MirrorTarget(), "s3://source", "http://minio:9000", "auto", secret="y"),
        Mirror(MirrorTarget(), "https://example.com:8443/a%20b/"),
    )),
)  # fmt: skip
other_ways = st.one_of(
    st.builds(lambda claim: ModelStorage(claim=claim), claims),
    st.builds(lambda store: ModelStorage(object_store=store), s3_buckets | public_buckets),
    st.builds(
        lambda image: ModelStorage(image=image),
        st.builds(ModelImage, st.just("r/a:1"), maybe(st.just("y/null")), st.sampled_from(("Always", "IfNotPresent"))),
    ),
    other_mirrors,
)


@st.composite
def storages(draw: st.DrawFn, mounted: tuple[Volume, ...], model: Model, cpu: bool) -> Storage:
    where = None
    if model.path is None:
        ways = hub_caches | hub_mirrors
        where = draw(maybe(ways if model.revision is not None else ways | other_ways))
    # Another claim than those of models, as above.
    caches = st.builds(Caches, st.just("compiled"), maybe(new_claims), st.booleans() if not cpu else st.just(False))
    return Storage(mounted, where, draw(maybe(caches)))


notes = st.dictionaries(
    st.sampled_from(("y", "a/on", "service.beta.kubernetes.io/x")),
    texts.filter(lambda text: not UNSENDABLE.search(text)),
    max_size=3,
)
hosts = st.sampled_from(("null", "1e3", "llm.example.com", "*.example.com"))
selectors = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(labels, st.sampled_from(("y", "1e3", "")), max_size=2),
        "matchExpressions": st.just([{"key": "on", "operator": "In", "values": ["y", "1.0"]}]),
    },
)
peers = st.one_of(
    st.builds(NetworkPeer, selectors, maybe(selectors)),
    st.builds(NetworkPeer, ip_block=st.sampled_from([{"cidr": "10.0.0.0/8"}, {"cidr": "fd00::/8", "except": []}])),
)
routes = st.builds(
    Gateway, labels, maybe(labels), maybe(labels), st.lists(hosts, max_size=2).map(tuple),
    maybe(st.sampled_from((0.0, 0.5, 30.0, 99_999.0))),
)  # fmt: skip
monitors = st.builds(
    Monitor, st.dictionaries(labels, st.sampled_from(("y", "")), max_size=2), maybe(st.sampled_from((0.001, 15.0)))
)


@st.composite
def exposures(draw: st.DrawFn, upgrade: Upgrade) -> Exposure:
    if upgrade.strategy == INCREMENTAL:
        return Exposure()
    kind: ServiceType = draw(st.sampled_from(("ClusterIP", "LoadBalancer")))
    ranges = ("10.0.0.0/8",) if kind == "LoadBalancer" and draw(st.booleans()) else ()
    ingress = st.builds(Ingress, hosts, maybe(labels), st.sampled_from(("/", "/v1", "/~a%20/")), maybe(labels), notes)
    return Exposure(kind, draw(notes), ranges, draw(maybe(ingress)), draw(maybe(routes)))


@st.composite
def securities(draw: st.DrawFn, level: PodSecurity) -> Security:
    if draw(st.booleans()):
        return Security(level)
    some = st.lists(peers, min_size=1, max_size=2).map(tuple)
    namespaces = st.sampled_from(("y", "kuberay-system"))
    return Security(level, "restricted", draw(some), draw(some), draw(some), draw(namespaces))


TERM: dict[str, Any] = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "1e3"]}]}
raw_affinities: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
        {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": TERM}]}},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM, TERM]}}},
    ]
)
spreads: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "maxSkew": st.integers(1, 3),
        "topologyKey": st.just("zone"),
        "whenUnsatisfiable": st.just("ScheduleAnyway"),
        "labelSelector": st.sampled_from([{}, {"matchLabels": {"app": "y"}}]),
    }
)
keys = st.builds(KeyOf, labels, st.sampled_from(("token", "y")), st.booleans())
sources = st.one_of(
    st.builds(lambda key: ValueFrom(secret_key_ref=key), keys),
    st.builds(lambda key: ValueFrom(config_map_key_ref=key), keys),
    st.just(ValueFrom(field_ref=FieldOf("metadata.name"))),
)
plain_texts = texts.filter(lambda text: not UNSENDABLE.search(text))


@st.composite
def pod_variables(draw: st.DrawFn) -> tuple[EnvironmentVariable, ...]:
    found = draw(st.lists(st.sampled_from(("POD_A", "POD_B", "off")), unique=True, max_size=3))
    return tuple(
        EnvironmentVariable(name, value_from=draw(sources))
        if draw(st.booleans())
        else EnvironmentVariable(name, draw(plain_texts))
        for name in found
    )


env_sources = st.one_of(
    st.builds(EnvironmentSource, maybe(st.just("A_")), secret_ref=st.builds(AllOf, labels, st.booleans())),
    st.builds(EnvironmentSource, maybe(st.just("A_")), config_map_ref=st.builds(AllOf, labels, st.booleans())),
)
pod_options = st.builds(
    PodOptions,
    service_account_name=maybe(labels),
    image_pull_secrets=st.lists(st.builds(ObjectName, labels), max_size=2, unique=True).map(tuple),
    labels=st.dictionaries(labels, st.sampled_from(("y", "1e3", "")), max_size=2),
    annotations=st.dictionaries(labels, plain_texts, max_size=2),
    priority_class_name=maybe(labels),
    runtime_class_name=maybe(labels),
    topology_spread_constraints=st.lists(spreads, max_size=1).map(tuple),
    affinity=raw_affinities,
    security_context=st.sampled_from([{}, {"runAsUser": 2000, "fsGroup": None}, {"supplementalGroups": [7]}]),
    container_security_context=st.sampled_from([{}, {"readOnlyRootFilesystem": False}]),
    env=pod_variables(),
    env_from=st.lists(env_sources, max_size=2).map(tuple),
    pod_template=st.sampled_from([{}, {"spec": {"hostname": "y"}}, {"spec": {"tolerations": None}}]),
)


rates = st.builds(Rates, maybe(st.just("60/minute")), maybe(st.just("100000/10 minutes")))
redis_servers = st.one_of(
    st.builds(Redis, managed=st.just(True), image=maybe(st.just("r/redis:1"))),
    st.builds(Redis, st.just("rediss://r:1/2"), password_secret=maybe(st.builds(SecretKey, labels, labels))),
)
checks = st.builds(
    Validation,
    max_body_bytes=st.sampled_from(("1Mi", "1e6")),
    body_timeout=st.sampled_from((0.5, 30.0)),
    prompt_characters=st.builds(GatewayBounds, maybe(st.just(1)), maybe(st.just(9))),
    parameters=maybe(st.just(("top_p", "seed"))),
)
characters = texts.filter(lambda text: not UNSENDABLE.search(text))


@st.composite
def gateways(draw: st.DrawFn, image: str | None) -> APIGateway:
    keys = draw(maybe(st.builds(Keys, maybe(labels))))
    # Ray's public image has not the packages for limits.
    limited = keys is not None and image != "rayproject/ray-llm:2.60.0-py312-cu130"
    return APIGateway(
        validation=draw(checks),
        cleaning=draw(maybe(st.builds(Cleaning, characters=characters))),
        keys=keys,
        limits=draw(maybe(st.builds(Limits, rates, rates, maybe(redis_servers)))) if limited else None,
        queue=draw(maybe(st.builds(Queue, maybe(counts)))),
        cors=draw(maybe(st.just(CORS(("*",))))),
        docs=draw(st.booleans()),
    )


amounts = st.sampled_from((1, 2.0, 0.5, 0.001, 30))
group_names = st.lists(st.sampled_from(("y", "null", "spot", "1e3")), unique=True, max_size=2)


@st.composite
def groups(draw: st.DrawFn, name: str, cpu: bool) -> ExtraWorkers:
    low = draw(st.integers(0, 2))
    gpus = None if cpu else draw(st.sampled_from((None, 0, 2)))
    size = PodResources("1500m", "0.5Gi")
    return ExtraWorkers(
        name,
        low,
        draw(st.integers(max(low, 1), 3)),
        gpus,
        draw(maybe(st.integers(1, 600).map(float))),
        size if gpus == 0 else draw(st.sampled_from((PodResources(), size))),
        draw(st.dictionaries(st.sampled_from(("y", "fast-disk")), st.integers(1, 5), max_size=2)),
        draw(st.dictionaries(labels, st.sampled_from(("y", "")), max_size=1)),
        tuple(draw(st.lists(tolerations, max_size=1))),
    )


@st.composite
def services_of_several(draw: st.DrawFn) -> LLMService:
    """Services of one to three models."""
    one = draw(services())
    where = draw(maybe(hub_caches))
    entries = [
        ModelEntry(
            f"org/{name}",
            name=draw(maybe(st.just(f"the-{name}"))),
            path=draw(maybe(st.just("/models"))) if where is None else None,
            adapters=draw(st.sampled_from([(), (Adapter(f"of-{name}", "/adapters"),)])),
            engine=ModelEngine(max_model_len=draw(maybe(counts)), args=draw(arguments)),
            accelerator=one.accelerator,
            replicas=one.replicas,
            resources=WorkerResources(one.resources.worker),
            load=one.load,
        )
        for name in draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
    ]
    of_all = Engine(image=one.engine.image, env=one.engine.env)
    default = LLMService("q")
    return replace(
        one,
        model=NO_MODEL,
        models=tuple(entries),
        mode="rayservice",
        engine=of_all,
        accelerator=default.accelerator,
        parallelism=default.parallelism,
        replicas=default.replicas,
        load=default.load,
        storage=replace(one.storage, model=where),
        resources=Resources(head=one.resources.head),
        worker_groups=(),
    )


@st.composite
def services(draw: st.DrawFn, *, on_cpu: bool | None = None, with_gateway: bool = False) -> LLMService:
    """A service that `validate` finds nothing wrong with.

    on_cpu: whether it runs on CPUs; None for either. with_gateway: always with one; otherwise sometimes.
    """
    cpu = draw(st.booleans()) if on_cpu is None else on_cpu
    low = draw(st.integers(0, 3))
    tensor = draw(maybe(st.integers(1, 8)))
    upgrade = draw(upgrades)
    mounted = draw(volumes())
    model = draw(models())
    engine = draw(engines(cpu))
    on_nodes = any(volume.host_path is not None for volume in mounted)
    return LLMService(
        name=draw(names),
        namespace=draw(maybe(labels)),
        model=model,
        engine=engine,
        gateway=draw(gateways(engine.image) if with_gateway else maybe(gateways(engine.image))),
        accelerator=Accelerator("cpu") if cpu else Accelerator("gpu", draw(maybe(st.just("H100-80GB")))),
        parallelism=Parallelism(
            tensor,
            draw(maybe(st.integers(1, 1 if cpu else 4))),
            across_nodes=tensor is not None and not cpu and draw(st.booleans()),
        ),
        replicas=Replicas(
            low,
            draw(st.integers(max(low, 1), 5)),
            draw(maybe(counts)),
            draw(maybe(st.just(0.0) | seconds)),
            draw(maybe(seconds)),
            draw(maybe(seconds)),
            draw(maybe(st.integers(low, max(low, 1)))),
            draw(maybe(seconds)) if low == 0 else None,
            None,
            draw(maybe(st.floats(0.01, 10))),
            draw(maybe(st.floats(0.01, 10))),
            draw(maybe(st.sampled_from(("mean", "max", "min")))),
        ),
        storage=draw(storages(mounted, model, cpu)),
        scheduling=Scheduling(
            draw(st.dictionaries(labels, st.sampled_from(("y", "1e3", "", "a.b")), max_size=2)),
            tuple(draw(st.lists(tolerations, max_size=2))),
            draw(st.dictionaries(st.sampled_from(("y", "fast-disk", "a:b/c")), amounts, max_size=2)),
        ),
        resources=Resources(
            PodResources(draw(maybe(st.just("500m"))), draw(maybe(st.just("8Gi")))),
            PodResources(draw(maybe(st.sampled_from(("4", "1e3")))), draw(maybe(st.sampled_from(("64Gi", "1G"))))),
        ),
        worker_groups=tuple(draw(groups(name, cpu)) for name in draw(group_names)),
        pods=Pods(draw(pod_options), draw(pod_options)),
        ray=draw(ray_options()),
        upgrade=upgrade,
        load=draw(loads()),
        exposure=draw(exposures(upgrade)),
        security=draw(securities("privileged" if on_nodes else draw(st.sampled_from(("restricted", "baseline"))))),
        availability=Availability(draw(maybe(st.builds(PodDisruptionBudget, st.integers(1, 9))))),
        monitoring=draw(st.one_of(
            st.builds(Monitoring, maybe(monitors)), st.builds(Monitoring, service_monitor=monitors)
        )),
    )  # fmt: skip
