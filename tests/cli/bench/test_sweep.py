"""`bench sweep` as a user meets it, against a fake API server; what the load tests measure is given."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import pytest

from rayllm_ctl.cluster import Cluster
from rayllm_ctl.errors import ClusterError
from rayllm_ctl.kinds import RAY_SERVICE
from rayllm_ctl.kinds.loadtest import sweep_rights
from rayllm_ctl.loadtest.settings import Report
from rayllm_ctl.model.bench.load import Results
from rayllm_ctl.model.kube import kuberay
from rayllm_ctl.model.kube.labels import SWEEP
from rayllm_ctl.model.workload import Right
from rayllm_ctl.workflows.bench.flags import Flags
from rayllm_ctl.workflows.bench.sweep import run as workflow
from rayllm_ctl.workflows.bench.sweep.folder import Left
from rayllm_ctl.workflows.bench.sweep.service import place
from rayllm_ctl.workflows.bench.sweep.signals import Interrupts
from tests.cli.conftest import Run
from tests.cli.test_commands_rights import grants
from tests.cli.test_commands_service import TINY
from tests.cluster import fakekuberay
from tests.cluster.fakeapi import Answer, FakeAPI, Request

SERVICES = "/rayservices/"
LLAMA = ("--model", "meta-llama/Llama-3.1-70B-Instruct", "--gpu", "H100-80GB", "--offline")


def measured(speed: float, *, failed: int = 0, concurrency: int = 8) -> dict[str, Any]:
    """A result as the load generator has it, of a server of so many requests per second."""
    times = dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "max"), 1 / speed)
    return {
        "startedAt": "2026-11-21T09:00:00Z",
        "prompts": {"input": {"kind": "fixed", "low": 256}, "output": None, "prefix": 0, "prefixes": 1, "seed": 0},
        "request": {"api": "chat", "stream": True, "fields": {}},
        "versions": {"rayllm-ctl": "0.1.0"},
        "load": {
            "concurrency": concurrency, "arrivals": "poisson", "burst": 1, "rampSeconds": 0.0, "warmup": 0,
            "timeoutSeconds": 600.0,
        },
        "requests": {"total": 10, "succeeded": 10 - failed, "failed": failed, "unfinished": 0},
        "durationSeconds": 1.0,
        "throughput": {
            "requestsPerSecond": speed, "inputTokensPerSecond": 1.0, "outputTokensPerSecond": 100 * speed,
        },
        "tokens": {"input": 1, "output": 1, "countedBy": "usage"},
        "latencySeconds": dict.fromkeys(("ttft", "tpot", "itl", "e2e"), times),
        "histogram": [], "timeline": [],
        "samples": {"begin": [], "ttft": [], "tpot": [], "e2e": [], "outputTokens": [], "itl": []},
        "errors": {"http_503": failed} if failed else {},
        "errorMessages": {"http_503": "busy"} if failed else {},
        "generator": {"cpuShare": 0.1, "lateSeconds": None, "saturated": False},
        "interrupted": False, "service": None, "predicted": None,
    }  # fmt: skip


class Load:
    """Stands in for the load test; `names`: the services that were measured."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.speeds = iter((4.0, 2.0, 1.0, 0.5))
        self.before: Callable[[], None] = lambda: None

    def __call__(self, flags: Flags, connect: Callable[[], Any], namespace: str | None, report: Report) -> Results:
        assert flags.name is not None
        self.names.append(flags.name)
        self.before()
        return Results(f"{flags.name} in {namespace}", ("tiny",), (measured(next(self.speeds)),))


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    made = Load()
    monkeypatch.setattr(workflow, "measure", made)
    return made


@pytest.fixture
def sweep(run: Run, api: FakeAPI, tmp_path: Path) -> Run:
    """Runs `bench sweep` of a tiny model over two numbers of sequences."""

    def collected(request: Request) -> Answer | None:
        collect(api, request)
        return None

    api.answer("DELETE", SERVICES, collected)

    def command(*flags: str) -> Any:
        vary = () if {"--vary", "--max-num-seqs"} & set(flags) else ("--max-num-seqs", "8,16")
        tiny = [*TINY]
        if any(flag.startswith(("--max-model-len", "engine.maxModelLen")) for flag in flags):
            at = tiny.index("--max-model-len")
            del tiny[at : at + 2]
        return run("bench", "sweep", *tiny, *vary, "--output-dir", str(tmp_path / "out"), *flags)

    return command


def collect(api: FakeAPI, request: Request) -> None:
    """Remove what KubeRay made for the RayService that a request is for."""
    name = request.path.rpartition("/")[2]
    for kind in ("RayCluster", "Pod", "EndpointSlice", "Service"):
        for found in api.names(kind):
            if found.startswith(f"{name}-"):
                api.remove(kind, found)


def files(tmp_path: Path) -> dict[str, Any]:
    found = [json.loads(path.read_text()) for path in (tmp_path / "out").glob("tiny-*.json")]
    return {json.dumps(one["values"]): one for one in found}


def test_variants_are_measured_one_after_another_and_removed(
    sweep: Run, run: Run, load: Load, api: FakeAPI, tmp_path: Path
) -> None:
    alone: list[list[str]] = []
    load.before = lambda: alone.append(api.names("RayService"))
    result = sweep()
    assert result.code == 0, str(result)
    assert alone == [[name] for name in load.names]
    assert api.names("RayService") == api.names("ConfigMap") == []
    header, first, second, *_ = result.out.splitlines()
    assert header.split()[:3] == ["maxNumSeqs", "requests/s", "tokens/s"]
    assert re.match(r"  8 +4 \* +400 \* +250 ms \*", first), result.out
    assert re.match(r"  16 +2 +200 +500 ms +500 ms", second), result.out
    assert re.search(r"\n  \* best +maxNumSeqs 8: requests/s, tokens/s, TTFT p50, TTFT p99, ", result.out)
    assert f"variant 2 of 2: maxNumSeqs 16, {load.names[1]}" in result.err
    kept = files(tmp_path)['{"engine.maxNumSeqs": 16}']
    assert (kept["state"], kept["spec"]["spec"]["engine"]["maxNumSeqs"]) == ("measured", 16)
    assert (kept["load"]["loads"][0]["concurrency"], kept["result"]["runs"][0]["throughput"]["requestsPerSecond"]) == (
        8,
        2.0,
    )

    before = len(api.requests)
    again = sweep("-o", "json")
    assert (again.code, len(load.names)) == (0, 2), str(again)
    assert len(api.requests) == before
    found = json.loads(again.out)
    assert [one["values"] for one in found["variants"]] == [{"engine.maxNumSeqs": 8}, {"engine.maxNumSeqs": 16}]
    assert found["interrupted"] is False

    more = sweep("--max-num-seqs", "8,32,16")
    assert len(load.names) == 3, str(more)
    assert [line.split()[0] for line in more.out.splitlines()[1:4]] == ["8", "32", "16"]

    page = run("bench", "report", str(tmp_path / "out"), "--output", str(tmp_path / "page.html"))
    assert page.code == 0, str(page)
    text = (tmp_path / "page.html").read_text()
    assert text.count("<svg") == 6
    assert "Sweep of tiny over engine.maxNumSeqs" in text


def test_results_of_another_load_or_spec_are_not_mixed(sweep: Run, load: Load, tmp_path: Path) -> None:
    assert sweep().code == 0
    for flags, says in (
        (("--concurrency", "4"), "load.loads[0].concurrency is 8 in the folder and 4 now"),
        (("--max-model-len", "2048"), "spec.engine.maxModelLen is 1024 in the folder and 2048 now"),
        (("--vary", "replicas.max=1,2"), "vary[0] is "),
    ):
        result = sweep(*flags)
        assert result.code == 2, str(result)
        assert says in result.err
        assert f"rm -r {tmp_path / 'out'}" in result.err
    assert len(load.names) == 2


def test_a_variant_that_does_not_become_ready_is_a_row(sweep: Run, load: Load, api: FakeAPI, tmp_path: Path) -> None:
    ready = api.applied

    def applied(item: dict[str, Any]) -> None:
        ready(item)
        if item["kind"] == "RayService" and item["spec"]["serveConfigV2"].count("max_num_seqs: 8\n"):
            fail(api, item["metadata"]["name"])

    api.applied = applied
    result = sweep()
    assert result.code == 1, str(result)
    assert re.search(r"\n  8 +failed\n  16 +4 ", result.out), result.out
    assert re.search(r"✗ maxNumSeqs 8: failed: \w+: \w+", result.out), result.out
    assert api.names("RayService") == []
    failed = files(tmp_path)['{"engine.maxNumSeqs": 8}']
    assert failed["reason"]["code"]
    assert failed["result"] is None
    api.applied = ready
    assert sweep().code == 0
    assert len(load.names) == 2, "a variant that failed is tried again, and no other"


def fail(api: FakeAPI, name: str) -> None:
    """Take the readiness of a service away: its engine has died."""
    service = api.stored("RayService", name)
    apps = {name: {"status": "DEPLOY_FAILED", "message": "the engine died"}}
    status = service["status"]
    active = {**status["activeServiceStatus"], "applicationStatuses": apps}
    conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": fakekuberay.BEGUN}]
    api.put(**{**service, "status": {**status, "activeServiceStatus": active, "conditions": conditions}})
    head = kuberay.head_service(f"{name}-{fakekuberay.SUFFIX}")
    serve = {"applications": {name: {"status": "DEPLOY_FAILED", "message": "the engine died", "deployments": {}}}}
    api.answer("GET", f"{head}:dashboard/proxy/api/serve/applications/$", (200, serve))


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Interrupts a sweep, and returns when the sweep has noticed."""
    noticed: queue.SimpleQueue[int] = queue.SimpleQueue()

    class Noticed(Interrupts):
        def _interrupted(self, number: int, frame: FrameType | None) -> None:
            noticed.put(number)
            super()._interrupted(number, frame)

    def send() -> None:
        main = threading.main_thread().ident or 0
        signal.pthread_kill(main, signal.SIGINT)
        # One that comes just before a system call does not end it, and waits for another one that does.
        for _ in range(1000):
            with contextlib.suppress(queue.Empty):
                noticed.get(timeout=0.03)
                return
            signal.pthread_kill(main, signal.SIGUSR1)
        raise AssertionError("the sweep has not noticed")

    monkeypatch.setattr(workflow, "Interrupts", Noticed)
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    yield send
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_removes_the_variant_and_prints_what_was_measured(
    sweep: Run, load: Load, api: FakeAPI, number: signal.Signals
) -> None:
    load.before = lambda: signal.raise_signal(number) if len(load.names) == 2 else None
    before = signal.getsignal(number)
    result = sweep()
    assert result.code == 130, str(result)
    assert re.search(r"\n  8 +4 +400 .*\n  16 +interrupted\n", result.out), result.out
    assert api.names("RayService") == api.names("ConfigMap") == []
    assert signal.getsignal(number) == before
    load.before = lambda: None
    assert sweep().code == 0
    assert len(load.names) == 3


@pytest.mark.parametrize(("method", "measured"), [("PATCH", 0), ("DELETE", 1)])
def test_an_interrupt_while_deploying_or_deleting(
    sweep: Run, load: Load, api: FakeAPI, interrupt: Callable[[], None], method: str, measured: int
) -> None:
    requests = iter([interrupt])
    api.answer(method, SERVICES, lambda _: next(requests, lambda: None)())
    result = sweep()
    assert result.code == 130, str(result)
    assert len(load.names) == measured
    assert api.names("RayService") == api.names("ConfigMap") == []
    assert result.out.count("not measured yet") == 1


@pytest.mark.connections  # the request that is interrupted is held by a thread of the server
def test_a_second_interrupt_leaves_the_variant_to_the_next_call(
    sweep: Run, load: Load, api: FakeAPI, interrupt: Callable[[], None]
) -> None:
    over, arrived = threading.Event(), threading.Event()

    def answer(request: Request) -> Answer:
        interrupt()
        interrupt()
        over.wait(30)
        # What was sent arrives, whatever becomes of its sender.
        collect(api, request)
        api.remove("RayService", request.path.rpartition("/")[2])
        arrived.set()
        return 200, {}

    api.answer("DELETE", SERVICES, answer, times=1)
    result = sweep()
    (name,) = load.names
    assert result.code == 130, str(result)
    assert f"interrupted: {name} is left in namespace llm" in result.err
    assert f"rayllm-ctl delete {name} -n llm" in result.err
    assert api.names("RayService") == [name]
    assert api.stored("RayService", name)["metadata"]["annotations"][SWEEP]
    over.set()
    assert arrived.wait(30)
    again = sweep("--max-num-seqs", "16,8")
    assert again.code == 0, str(again)
    assert load.names.count(name) == 1
    assert api.names("RayService") == []


@pytest.mark.connections
@pytest.mark.parametrize(
    ("measured_before", "values"), [(2, "8,16"), (1, "16,32"), (1, "8,16")],
    ids=["all-measured", "not-among-them", "one-to-measure"],
)  # fmt: skip
def test_a_measured_variant_whose_deletion_did_not_arrive_is_removed_by_the_next_call(
    sweep: Run, load: Load, api: FakeAPI, interrupt: Callable[[], None], measured_before: int, values: str
) -> None:
    over = threading.Event()

    def lost(_request: Request) -> Answer | None:
        if len(load.names) < measured_before:
            return None
        interrupt()
        interrupt()
        over.wait(30)
        return 0, b""

    api.answer("DELETE", SERVICES, lost, times=1)
    result = sweep("--max-num-seqs", "8,16")
    name = load.names[-1]
    assert (result.code, api.names("RayService")) == (130, [name]), str(result)
    assert "run the same bench sweep again to remove it" in result.err
    over.set()
    again = sweep("--max-num-seqs", values)
    assert again.code == 0, str(again)
    assert f"{name} was left by an interrupted sweep and is removed first" in again.err
    assert api.names("RayService") == []
    assert load.names.count(name) == 1
    before = len(api.requests)
    assert sweep("--max-num-seqs", values).code == 0
    assert len(api.requests) == before


def test_a_service_that_was_left_elsewhere_is_not_forgotten(
    sweep: Run, load: Load, api: FakeAPI, tmp_path: Path
) -> None:
    kept = tmp_path / "out" / "left.json"
    notes: list[dict[str, str]] = []
    load.before = lambda: notes.append(json.loads(kept.read_text()))
    assert sweep().code == 0
    assert notes[0] == {"variant": load.names[0], "namespace": "llm", "server": api.url}
    assert not kept.exists()
    for other in ({"namespace": "elsewhere"}, {"server": "https://another:6443"}):
        left = notes[0] | other
        kept.write_text(json.dumps(left))
        before = len(api.requests)
        result = sweep()
        assert result.code == 1, str(result)
        where = f"in namespace {left['namespace']} of {left['server'].replace(api.url, 'http://SERVER')}"
        assert f"{left['variant']} was left by an interrupted sweep {where}" in result.err
        assert "this call is for namespace llm of http://SERVER" in result.err
        assert (len(api.requests), json.loads(kept.read_text())) == (before, left)
    kept.write_text(json.dumps(notes[0]))
    assert "is removed first" in sweep().err
    assert not kept.exists()


def test_what_is_left_is_kept_without_credentials() -> None:
    cluster = cast("Cluster", SimpleNamespace(server="https://user:secret@api.example:6443/k8s?token=t"))
    assert place(cluster, "tiny", "llm") == Left("tiny", "llm", "https://api.example:6443/k8s")


def test_a_service_that_the_sweep_did_not_make_is_not_touched(
    sweep: Run, run: Run, load: Load, api: FakeAPI, tmp_path: Path
) -> None:
    assert sweep().code == 0
    name = load.names[1]
    api.put(kind="RayService", metadata={"name": name}, spec={"mine": True})
    result = run("bench", "sweep", *TINY, "--max-num-seqs", "8,16", "--output-dir", str(tmp_path / "other"))
    assert result.code == 1, str(result)
    assert f"rayservice/{name} exists in namespace llm and was not created by this sweep" in result.err
    assert len(load.names) == 2
    assert api.stored("RayService", name)["spec"] == {"mine": True}


def test_variants_that_the_planner_rejects_are_rows(run: Run, load: Load, api: FakeAPI, tmp_path: Path) -> None:
    api.granted = grants(Right("get", "RayService"))
    flags = ("bench", "sweep", *LLAMA, "--output-dir", str(tmp_path / "out"))
    none = run(*flags, "--tp", "3,5")
    assert none.code == 1, str(none)
    assert "no variant can be deployed:\ntensor 3: TP 3 does not divide the 64 attention heads" in none.err
    assert not (tmp_path / "out").exists()
    lacking = run(*flags, "--tp", "3,4")
    assert lacking.code == 5, str(lacking)
    assert "not permitted to" in lacking.err
    assert "delete rayservices.ray.io" in lacking.err
    assert api.count("PATCH", ".") == 0
    (kept,) = (json.loads(path.read_text()) for path in (tmp_path / "out").glob("llama-*.json"))
    assert (kept["state"], kept["reason"]["code"], kept["values"]) == (
        "rejected", "tensor-parallel-heads", {"parallelism.tensor": 3},
    )  # fmt: skip


def test_without_a_cluster_nothing_is_written(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    failed = run("bench", "sweep", *LLAMA, "--tp", "3,4", "--output-dir", str(out), "--context", "unknown")
    assert (failed.code, "unknown" in failed.err) == (2, True), str(failed)
    assert not out.exists()


@pytest.mark.parametrize(
    ("lengths", "rejected"),
    [
        (("--input-tokens", "8000"), True),
        (("--input-tokens", "uniform:4000:9000"), True),
        (("--input-tokens", "4096", "--output-tokens", "1"), True),
        (("--input-tokens", "4095", "--output-tokens", "1"), False),
        (("--input-tokens", "uniform:100:9000"), False),
        (("--input-tokens", "lognormal:8000:1"), False),
    ],
)
def test_a_variant_whose_context_is_too_short_for_the_load_is_rejected(
    sweep: Run, load: Load, tmp_path: Path, lengths: tuple[str, ...], rejected: bool
) -> None:
    result = sweep("--vary", "engine.maxModelLen=4096,16384", *lengths)
    assert result.code == 0, str(result)
    assert len(load.names) == (1 if rejected else 2)
    records = [json.loads(path.read_text()) for path in (tmp_path / "out").glob("tiny-*.json")]
    short = next(one for one in records if one["values"] == {"engine.maxModelLen": 4096})
    assert (short["state"], "exceed the context of 4,096" in str(short)) == (
        ("rejected", True) if rejected else ("measured", False)
    )


def test_the_rights_of_deploy_bench_and_delete_are_enough(sweep: Run, load: Load, api: FakeAPI) -> None:
    needed = (
        *RAY_SERVICE.rights_for("apply", "bounds", "follow").needed,
        *sweep_rights(RAY_SERVICE, ["RayService"], local=False).needed,
    )
    api.granted = grants(*needed, *RAY_SERVICE.rights_for("follow").display)
    result = sweep()
    assert result.code == 0, str(result)
    assert api.names("RayService") == []


def test_what_every_variant_would_meet_ends_the_sweep(sweep: Run, load: Load, api: FakeAPI) -> None:
    def unreachable() -> None:
        if len(load.names) == 2:
            raise ClusterError("the API server does not answer")

    load.before = unreachable
    result = sweep("--max-num-seqs", "8,16,32")
    assert result.code == 5, str(result)
    assert "✗ the API server does not answer" in result.err
    assert re.search(r"\n  8 +4 .*\n  16 +not measured yet\n  32 +not measured yet\n", result.out), result.out
    assert api.names("RayService") == []


def test_a_cluster_that_cannot_take_any_variant(sweep: Run, load: Load, api: FakeAPI) -> None:
    result = sweep("-n", "nowhere")
    assert result.code == 1, str(result)
    assert result.err.startswith("✗ namespace nowhere does not exist")
    assert result.out == ""
    assert api.count("PATCH", ".") == 0


def test_a_variant_without_an_answer_has_failed(sweep: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nothing(flags: Flags, *_: Any) -> Results:
        return Results(str(flags.name), ("tiny",), (measured(1.0, failed=10),))

    monkeypatch.setattr(workflow, "measure", nothing)
    result = sweep("--vary", "engine.maxNumSeqs=8")
    assert result.code == 1, str(result)
    assert "✗ maxNumSeqs 8: failed: NoAnswer: no request was answered: http_503: busy" in result.out


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((), "no field to vary was given"),
        (("--tp", "1,x"), '--tp x: expected an integer, found "x"'),
        (("--tp", "1,1"), "--tp: 1 is there twice"),
        (("--replicas", "x"), "--replicas: expected an integer, found x"),
        (("--replicas", "-1,1"), "--replicas -1: "),
        (("--vary", "engine.maxNumSeq=1,2"), 'field "maxNumSeq" does not exist in spec.engine'),
        (("--vary", "engine.args.max_num_seqs=1,2"), "--vary engine.args.max_num_seqs=1: has a field of its own"),
        (("--vary", "parallelism.tensor=1,2", "--tp", "1,4"), "vary the same field"),
        (("--vary", "replicas.max=1,2", "--replicas", "2"), "set the same field"),
        (("--vary", "engine.maxModelLen=1,2", "--max-model-len", "4"), "set the same field"),
        (("--vary", "metadata.name=a,b"), 'field "metadata" does not exist in spec'),
        (("--vary", "models[0].engine.dtype=a"), "the spec has no element [0] there"),
        (("--vary", "tp"), "expected FIELD=VALUE"),
        (("--vary", "mode=rayservice,raycluste"), '--vary mode=raycluste: "raycluste" is not supported'),
        (("--gpu", "L4,L5"), "gpu L5: "),
        (("--tp", "1,2", "--find-max"), "--find-max requires --slo"),
    ],
)
def test_flags_that_cannot_work(run: Run, api: FakeAPI, flags: tuple[str, ...], says: str) -> None:
    given = ("--model", "Qwen/Qwen3-32B", "--offline")
    result = run("bench", "sweep", *given, *flags)
    assert result.code == 2, str(result)
    assert says in result.err
    assert api.requests == []


@pytest.mark.usefixtures("sweep")
def test_a_gateway_needs_a_key_and_leaves_no_secret(run: Run, load: Load, api: FakeAPI, tmp_path: Path) -> None:
    spec = {
        "model": {"id": "tiny", "path": "/models/tiny"},
        "accelerator": {"kind": "cpu"},
        "engine": {"image": "example.com/vllm-cpu:1", "maxModelLen": 1024},
        "gateway": {"keys": {"secret": "keys"}, "limits": {"redis": {"managed": True}}},
    }
    head = {"apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService", "metadata": {"name": "tiny"}}
    (tmp_path / "spec.json").write_text(json.dumps({**head, "spec": spec}))
    flags = ("bench", "sweep", "-f", str(tmp_path / "spec.json"), "--offline", "--vary", "engine.maxNumSeqs=8",
             "--output-dir", str(tmp_path / "out"))  # fmt: skip
    result = run(*flags)
    assert result.code == 2, str(result)
    assert "will require an API key" in result.err
    made: list[list[str]] = []
    load.before = lambda: made.append(api.names("Secret"))
    result = run(*flags, "--api-key-secret", "bench/key")
    assert result.code == 0, str(result)
    assert [len(names) for names in made] == [1]
    assert api.names("Secret") == []
