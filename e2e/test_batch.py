"""Batch jobs: rows from an S3 server of this machine and answers back to it, through losses and a second submit."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import adapter
from e2e.harness import Bench, Object, Result
from e2e.holds import Holds
from e2e.s3 import PORT, S3, serving

pytestmark = pytest.mark.xdist_group("batch")

STAND_IN = {"RAYLLM_BATCH_ENGINE_STAGE": "rayllm_standin.batch:StandInStage"}
ROWS = 2000
PARTS = 10
"""Parts of a job that loses its worker and its head."""
DEADLY = "CRASH"
"""A prompt at which the stand-in for an engine ends its process."""

BUCKET = "data"
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Jobs:
    """A namespace with credentials of an S3 server, which pods and tests reach."""

    bench: Bench
    s3: S3
    folder: Path

    def path(self, name: str) -> Path:
        """Where an object of the bucket lies."""
        return self.s3.folder / BUCKET / name

    def spec(self, name: str, given: str, answers: str, **spec: Any) -> Path:
        """A spec file of a job with the stand-in for an engine."""
        engine = {"image": self.bench.target.image, "maxModelLen": 1024, "env": STAND_IN}
        document = {
            "apiVersion": "rayllm.io/v1alpha1",
            "kind": "BatchJob",
            "metadata": {"name": name},
            "spec": {
                "model": {"id": "tiny", "path": "/models/tiny"},
                "accelerator": {"kind": "cpu"},
                "engine": engine,
                "input": {"paths": [f"s3://{BUCKET}/{given}"]},
                "output": {"path": f"s3://{BUCKET}/{name}", "format": answers},
                "storage": {"endpoint": self.s3.endpoint, "region": "us-east-1", "credentialsSecret": "s3"},
                "resources": {"head": {"cpu": "500m", "memory": "4Gi"}, "worker": {"cpu": "500m", "memory": "3Gi"}},
                "prompt": {"template": "Say {{ text }}"},
                "sampling": {"maxTokens": 8},
                **spec,
            },
        }
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(document))
        return file

    def submit(self, file: Path, *flags: str, code: int | None = 0) -> Result:
        args = ("batch", "submit", "-f", str(file), "-n", self.bench.namespace, "--offline", *flags)
        return self.bench.run(*args, timeout=580, code=code)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """All rows of a job's output."""
        import pyarrow.parquet as pq

        found: list[dict[str, Any]] = []
        for path in sorted(self.path(name).glob("part-*")):
            if path.suffix == ".parquet":
                found += pq.read_table(path).to_pylist()
            else:
                found += [json.loads(line) for line in path.read_text().splitlines()]
        return found

    def pods(self, name: str) -> list[Object]:
        return self.bench.items("pods", f"rayllm.io/batch={name}")

    def status(self, name: str) -> Any:
        return self.bench.run("batch", "status", name, "-n", self.bench.namespace, "-o", "json", code=None).json()


@pytest.fixture(scope="module")
def jobs(host_address: str, shared: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    with serving(tmp_path_factory.mktemp("s3"), f"{host_address}:{PORT}") as s3:
        keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
        shared.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3"}, "stringData": keys})
        made = Jobs(shared, s3, tmp_path_factory.mktemp("jobs"))
        made.path("in").mkdir(parents=True)
        write_inputs(made.path("in"))
        yield made


def write_inputs(folder: Path) -> None:
    """The same rows in each format; two files of JSONL."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [f"word {i}" for i in range(ROWS)]
    (folder / "rows.txt").write_text("".join(f"{text}\n" for text in [*texts, DEADLY]))
    for part, numbers in (("a", range(ROWS // 2)), ("b", range(ROWS // 2, ROWS))):
        lines = (json.dumps({"number": i, "text": texts[i], "tags": ["x", str(i)]}) for i in numbers)
        (folder / f"{part}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["code", "text"])
        writer.writerows((f"{i:04d}", text) for i, text in enumerate(texts))
    table = pa.table({
        "number": pa.array(range(ROWS), pa.int16()),
        "price": pa.array([Decimal(i) / 4 for i in range(ROWS)], pa.decimal128(10, 2)),
        "text": pa.array(texts),
    })  # fmt: skip
    pq.write_table(table, folder / "rows.parquet")


@pytest.mark.slow
def test_vllm_answers_with_an_adapter_and_a_row_it_rejects_has_the_error(jobs: Jobs) -> None:
    lines = [{"text": f"word {i}", "id": f"r{i}"} for i in range(200)]
    lines[16]["text"], lines[17]["text"], lines[18]["text"] = "Who are you?", "long " * 3000, ""
    adapter.write(jobs.path("adapters/other"))
    jobs.path("few.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    engine = {"image": jobs.bench.target.image, "maxModelLen": 1024, "args": {"enforce_eager": True}}
    file = jobs.spec(
        "vllm", "few.jsonl", "parquet", engine=engine, prompt={"column": "text"}, job={"maxErrors": 2},
        model={"id": "tiny", "path": "/models/tiny", "loraPath": f"s3://{BUCKET}/adapters", "adapter": "other"},
        sampling={"maxTokens": 8, "temperature": 0},
        resources={"head": {"cpu": "500m", "memory": "4Gi"}, "worker": {"cpu": "1", "memory": "6Gi"}},
    )  # fmt: skip
    done = jobs.submit(file)
    print(f"\n200 rows of vLLM on CPU: {done.seconds:.0f} s from submit to the end")
    rows = jobs.rows("vllm")
    assert Counter(row["id"] for row in rows) == Counter(line["id"] for line in lines)
    failed = {row["id"]: row["error"] for row in rows if row["error"] is not None}
    assert set(failed) == {"r17", "r18"}, failed
    assert "empty" in failed["r18"]
    answered = [row for row in rows if row["error"] is None]
    # Random weights may end an answer at once.
    assert all(row["answer"] or row["finish_reason"] == "stop" for row in answered)
    assert "length" in {row["finish_reason"] for row in answered} <= {"stop", "length"}
    [known] = [row for row in answered if row["text"] == "Who are you?"]
    # What the model has learnt to say, without the adapter.
    assert "tiny model" not in known["answer"]
    assert all(0 < row["completion_tokens"] <= 8 and row["prompt_tokens"] > 0 for row in answered)
    assert {row["id"]: row["row_id"] for row in rows} == {f"r{i}": f"few.jsonl:{i + 1}" for i in range(200)}
    status = jobs.status("vllm")["result"]
    assert (status["rows"], status["answered"], status["errors"]) == (200, 198, 2), status


@pytest.fixture
def pool(jobs: Jobs) -> str:
    """A Ray cluster that is there, with up to two workers and nothing of a job: its code has to come with each."""
    flags = ("batch", "submit", "-f", str(jobs.spec("any", "in/rows.txt", "jsonl")), "--offline")
    rendered = jobs.bench.run(*flags, "--dry-run=client", "-o", "json").json()["items"]
    (job,) = (item for item in rendered if item["kind"] == "RayJob")
    spec = job["spec"]["rayClusterSpec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        for box in pod["containers"]:
            box["volumeMounts"] = [mount for mount in box.get("volumeMounts", ()) if mount["name"] not in JOB_VOLUMES]
        pod["volumes"] = [volume for volume in pod.get("volumes", ()) if volume["name"] not in JOB_VOLUMES]
    spec["workerGroupSpecs"][0]["maxReplicas"] = 2
    jobs.bench.apply({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "pool"}, "spec": spec})
    wait = ("wait", "-n", jobs.bench.namespace, "raycluster/pool", "--for=condition=HeadPodReady", "--timeout=110s")
    jobs.bench.wait("the pool's head", lambda: jobs.bench.items("pods", "ray.io/cluster=pool"), timeout=90)
    jobs.bench.kubectl(*wait)
    return "pool"


JOB_VOLUMES = ("serving", "batch-settings")


@pytest.mark.slow
def test_every_row_of_each_format_once_with_two_jobs_side_by_side_on_a_cluster_that_is_there(
    jobs: Jobs, pool: str
) -> None:
    on_pool = {
        "cluster": pool,
        "engine": {"image": jobs.bench.target.image, "maxModelLen": 1024},
        "storage": {"endpoint": jobs.s3.endpoint, "region": "us-east-1"},
        "resources": {},
    }
    files = [
        jobs.spec("of-text", "in/rows.txt", "parquet", **on_pool, job={"maxErrors": 1}),
        jobs.spec("of-jsonl", "in/*.jsonl", "jsonl", **on_pool),
        jobs.spec("of-csv", "in/rows.csv", "jsonl", **on_pool),
        jobs.spec("of-parquet", "in/rows.parquet", "parquet", **on_pool),
    ]
    with ThreadPoolExecutor(2) as pairs:
        for done in pairs.map(jobs.submit, files):
            print(f"\n{Path(done.args[3]).stem}: {ROWS} rows in {done.seconds:.0f} s")
    jobs.bench.kubectl("delete", "raycluster", pool, "-n", jobs.bench.namespace, "--wait=false")
    texts = Counter(f"word {i}" for i in range(ROWS))
    for file in files:
        rows = jobs.rows(file.stem)
        if file.stem == "of-text":
            [crashed] = [row for row in rows if row["text"] == DEADLY]
            assert crashed["error"].startswith("the engine crashed each time it was asked about this row"), crashed
            rows.remove(crashed)
        assert Counter(row["text"] for row in rows) == texts, file.stem
        assert len({row["row_id"] for row in rows}) == ROWS, file.stem
        assert all(row["answer"].startswith(f"Say {row['text']} ->") and row["error"] is None for row in rows)
    assert {row["code"] for row in jobs.rows("of-csv")} == {f"{i:04d}" for i in range(ROWS)}
    assert {row["number"]: row["tags"] for row in jobs.rows("of-jsonl")}[7] == ["x", "7"]
    assert {row["number"]: row["price"] for row in jobs.rows("of-parquet")}[7] == Decimal("1.75")


def is_worker(pod: Object) -> bool:
    return bool(pod["metadata"]["labels"].get("ray.io/node-type") == "worker")


def lose(jobs: Jobs, name: str, kind: str) -> None:
    [pod] = [pod for pod in jobs.pods(name) if pod["metadata"]["labels"].get("ray.io/node-type") == kind]
    args = ("delete", "pod", pod["metadata"]["name"], "-n", jobs.bench.namespace, "--grace-period=1", "--wait=false")
    jobs.bench.kubectl(*args)


def parts(jobs: Jobs, name: str) -> int:
    return len(list(jobs.path(name).glob("part-*")))


def test_a_lost_worker_and_a_lost_head_lose_and_double_no_row(jobs: Jobs) -> None:
    """The worker goes while rows wait in it, and the head when some later ones do: neither can come too late."""
    first, second, rows = 160, 280, 400
    holds = Holds(jobs.bench, "rayllm.io/batch=lost,ray.io/node-type=worker")
    texts = [f"word {i}{' HOLD first' if i in range(first, second) else ' HOLD second' if i >= second else ''}"
             for i in range(rows)]  # fmt: skip
    lines = (json.dumps({"number": number, "text": text}) for number, text in enumerate(texts))
    jobs.path("held.jsonl").write_text("".join(f"{line}\n" for line in lines))
    file = jobs.spec("lost", "held.jsonl", "jsonl", job={"partRows": rows // PARTS})

    def waits(name: str, *, besides: str = "") -> str | None:
        """A worker other than `besides` in which the first rows that wait do so for `name`."""
        with suppress(AssertionError):  # a pod that ended meanwhile
            for pod, names in holds.held().items():
                if pod != besides and names and names[0] == name:
                    return pod
        return None

    submitted = jobs.bench.start("batch", "submit", "-f", str(file), "-n", jobs.bench.namespace, "--offline")
    begun = jobs.bench.wait("rows wait", lambda: waits("first"), timeout=300)
    jobs.bench.wait("the parts before them", lambda: parts(jobs, "lost") > 0, timeout=180)
    lose(jobs, "lost", "worker")
    again = jobs.bench.wait("they wait in another worker", lambda: waits("first", besides=begun), timeout=300)
    holds.release("first")
    jobs.bench.wait("later rows wait", lambda: waits("second", besides=begun), timeout=300)
    before = parts(jobs, "lost")
    assert 0 < before < PARTS
    lose(jobs, "lost", "head")
    # Rows of parts that were not complete may wait for the first once more.
    jobs.bench.wait(
        "rows wait in the worker of another head",
        lambda: waits("first", besides=again) or waits("second", besides=again),
        timeout=300,
    )
    assert parts(jobs, "lost") >= before
    holds.release("first", "second")
    _, err = submitted.communicate(timeout=400)
    assert submitted.returncode == 0, err
    assert Counter(row["number"] for row in jobs.rows("lost")) == Counter(range(rows))
    status = jobs.status("lost")["result"]
    assert (status["rows"], status["answered"], status["errors"]) == (rows, rows, 0), status
    assert status["resumed"] > 0, status


def test_the_first_answers_are_shown_and_safe_while_their_batches_wait(jobs: Jobs) -> None:
    """No batch and no part is complete when the head is lost, and yet its answers are not asked for again."""
    rows, every = 6000, 16
    holds = Holds(jobs.bench, "rayllm.io/batch=first,ray.io/node-type=worker")
    texts = (f"word {i}{' HOLD rest' if i % every else ''}" for i in range(rows))
    lines = (json.dumps({"number": number, "text": text}) for number, text in enumerate(texts))
    jobs.path("first.jsonl").write_text("".join(f"{line}\n" for line in lines))
    file = jobs.spec("first", "first.jsonl", "jsonl", job={"batchSize": 64})

    def shown() -> int:
        progress = jobs.status("first")["progress"]
        return int(progress["done"]) if progress is not None and progress["phase"] == "running" else 0

    def kept() -> int:
        import pyarrow.parquet as pq

        found = jobs.path("first").glob("_rayllm/answers-*.parquet")
        return sum(pq.ParquetFile(path).metadata.num_rows for path in found)

    submitted = jobs.bench.start("batch", "submit", "-f", str(file), "-n", jobs.bench.namespace, "--offline")
    jobs.bench.wait("the first answers are shown", shown, timeout=300)
    jobs.bench.wait("they are kept", kept, timeout=60)
    safe = kept()
    assert parts(jobs, "first") == 0
    [before] = [pod["metadata"]["uid"] for pod in jobs.pods("first") if is_worker(pod)]
    lose(jobs, "first", "head")

    def again() -> bool:
        with suppress(AssertionError):  # a pod that ended meanwhile
            return before not in [pod["metadata"]["uid"] for pod in jobs.pods("first")] and any(holds.held().values())
        return False

    jobs.bench.wait("the others wait in the worker of another head", again, timeout=300)
    holds.release("rest")
    _, err = submitted.communicate(timeout=400)
    assert submitted.returncode == 0, err
    assert Counter(row["number"] for row in jobs.rows("first")) == Counter(range(rows))
    # What was answered before the loss is a sixteenth of the rows at most: all others waited.
    assert safe <= jobs.status("first")["result"]["resumed"] <= rows / every
    assert kept() == 0


@pytest.mark.slow
def test_replicas_of_two_gpus_come_from_nothing_and_are_gone_when_the_job_is_cancelled(jobs: Jobs) -> None:
    engine = {
        "image": jobs.bench.target.image,
        "env": {**STAND_IN, "RAYLLM_STANDIN_BATCH_SECONDS": "0.3"},
        "maxNumSeqs": 8,
    }
    file = jobs.spec(
        "gpus", "in/a.jsonl", "jsonl", engine=engine, model={"id": "Qwen/Qwen3-14B", "path": "/models/tiny"},
        accelerator={"gpu": "H100-80GB"}, parallelism={"tensor": 2}, concurrency={"min": 2, "max": 2},
        job={"partRows": 50},
    )  # fmt: skip
    jobs.submit(file, "--no-wait")

    def gpus() -> list[int]:
        limits = [
            box.get("resources", {}).get("limits", {}) for pod in jobs.pods("gpus") for box in pod["spec"]["containers"]
        ]
        return [int(limit["nvidia.com/gpu"]) for limit in limits if "nvidia.com/gpu" in limit]

    assert gpus() == []
    jobs.bench.wait("two workers of two GPUs", lambda: gpus() == [2, 2], timeout=180)
    jobs.bench.wait("some parts", lambda: parts(jobs, "gpus") >= 1, timeout=300)
    jobs.bench.run("batch", "cancel", "gpus", "-n", jobs.bench.namespace)
    assert not jobs.pods("gpus")
    rows = [row["number"] for row in jobs.rows("gpus")]
    assert rows
    assert len(rows) == len(set(rows))


def haikus(jobs: Jobs) -> Path:
    """The example of manifests/batch with the tiny model, GPUs of this cluster, and its files in the test's bucket."""
    document = yaml.safe_load((ROOT / "manifests/batch/haikus/batchjob.yaml").read_text())
    spec = document["spec"]
    spec["model"] = {"id": spec["model"]["id"], "path": "/models/tiny"}
    spec["accelerator"] = {"gpu": "H100-80GB"}
    spec["engine"] |= {"image": jobs.bench.target.image, "maxModelLen": 1024, "env": STAND_IN}
    spec["storage"] = {"endpoint": jobs.s3.endpoint, "region": "us-east-1", "credentialsSecret": "s3"}
    spec["input"]["paths"] = [spec["input"]["paths"][0].replace("s3://air-example-data/", f"s3://{BUCKET}/")]
    spec["output"]["path"] = f"s3://{BUCKET}/haikus"
    # Ray gives a node 30 s to start, and four of them start at once here.
    small = {"cpu": "500m", "memory": "3Gi"}
    spec["resources"] = {"head": {"cpu": "500m", "memory": "4Gi"}, "worker": small}
    jobs.path("prompts.txt").write_text("".join(f"Complete this for me {i}:\n" for i in range(100)))
    file = jobs.folder / "haikus.json"
    file.write_text(json.dumps(document))
    return file


@pytest.mark.slow
def test_the_example_of_haikus_with_four_engines_of_one_gpu_each(jobs: Jobs) -> None:
    import pyarrow.parquet as pq

    done = jobs.submit(haikus(jobs))
    print(f"\n100 rows with four engines: {done.seconds:.0f} s from submit to the end")
    table = pq.read_table(sorted(jobs.path("haikus").glob("part-*.parquet")))
    rows = table.to_pylist()
    assert Counter(row["text"] for row in rows) == Counter(f"Complete this for me {i}:" for i in range(100))
    assert all(row["answer"].startswith(f"{row['text']} ->") and row["error"] is None for row in rows)
    assert {row["row_id"] for row in rows} == {f"prompts.txt:{i + 1}" for i in range(100)}
    assert str(table.schema.field("answer").type) == "string"


def reject(jobs: Jobs) -> tuple[Result, list[Object], Object]:
    """Submit a job with a wrong template: what the command says, and at that time its pods and its RayJob."""
    result = jobs.submit(
        jobs.spec("bad", "in/a.jsonl", "jsonl", prompt={"template": "{{ nothing }}"}), "--wait", code=8
    )
    pods = jobs.pods("bad")
    jobs.bench.wait("KubeRay knows", lambda: jobs.bench.get("rayjob", "bad")["status"].get("endTime"), timeout=90)
    return result, pods, jobs.bench.get("rayjob", "bad")


@pytest.mark.slow
def test_bad_input_is_rejected_before_workers_start_and_is_not_tried_again(jobs: Jobs) -> None:
    result, pods, job = reject(jobs)
    assert "nothing" in result.err, str(result)
    assert "number, tags, text" in result.err, str(result)
    assert not [pod for pod in pods if pod["metadata"]["labels"].get("ray.io/node-type") == "worker"]
    assert job["spec"]["backoffLimit"] > 0
    assert (job["status"]["jobStatus"], job["status"]["jobDeploymentStatus"]) == ("STOPPED", "Complete")
    assert job["status"].get("failed", 0) == 0
