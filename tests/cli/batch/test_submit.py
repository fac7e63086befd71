"""`batch submit`, and `plan` and `render` of a BatchJob, as a user meets them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml

from rayllm_ctl.cli.batch_flags import BATCH_FLAGS
from rayllm_ctl.cli.commands.batch import follow
from rayllm_ctl.cli.session import Display
from rayllm_ctl.model.events import Applied, Downloading, Event
from rayllm_ctl.model.kube.labels import BATCH
from rayllm_ctl.specfile.explain import explain
from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI, Request
from tests.conftest import Golden
from tests.health.storage.manifests import live_claim
from tests.specfile.test_explain import below
from tests.workflows.rollout.model_storage.fakedownloads import DENIED, Downloads

FLAGS = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--offline", "--gpu", "L4", "--max-model-len", "8192")
DATA = ("--input", "s3://bucket/in/*.jsonl", "--output-path", "s3://bucket/out", "--prompt", "Summarize: {{ text }}")
JOB = ("batch", "submit", *FLAGS, *DATA, "--name", "job", "-n", "llm")
SUBMIT = (*JOB, "--no-wait")

TEXT = ("batch", "submit", *FLAGS, "--input", "s3://bucket/in.txt", "--output-path", "s3://bucket/out", "--no-wait")


def without(flag: str) -> tuple[str, ...]:
    """JOB without a flag and its value."""
    at = JOB.index(flag)
    return (*JOB[:at], *JOB[at + 2 :])


TEMPLATED = (*without("--prompt"), "--no-wait", "--prompt")

SPEC = """\
apiVersion: rayllm.io/v1alpha1
kind: BatchJob
metadata: {name: job, namespace: llm}
spec:
  model: {id: meta-llama/Llama-3.1-8B-Instruct}
  accelerator: {gpu: L4}
  engine: {maxModelLen: 8192}
  input: {paths: ["s3://bucket/in/*.jsonl"]}
  prompt: {template: "Summarize: {{ text }}"}
  output: {path: s3://bucket/out}
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "job.yaml"
    file.write_text(SPEC, encoding="utf-8")
    return str(file)


def test_every_flag_sets_a_field() -> None:
    assert set(BATCH_FLAGS) - {field.attribute for field in below(explain("batchjob"))} == set()


def test_flags_and_the_file_are_the_same_job(run: Run, api: FakeAPI, spec: str) -> None:
    from_flags = run(*JOB, "--dry-run=client")
    assert from_flags.code == 0
    assert from_flags.out == run("render", "-f", spec, "--offline", "-n", "llm").out
    assert from_flags.out == run("batch", "submit", "-f", spec, "--offline", "--dry-run=client", "-n", "llm").out
    assert api.requests == []


def test_a_folder_of_manifests(run: Run, spec: str, tmp_path: Path) -> None:
    assert run("render", "-f", spec, "--offline", "--output-dir", str(tmp_path / "out")).code == 0
    files = sorted(path.name.rsplit("-", 1)[0] for path in (tmp_path / "out" / "job").iterdir())
    assert files == ["configmap-job-code", "configmap-job-settings", "kustomization.yaml", "rayjob"]


def test_the_plan(run: Run, spec: str, golden: Golden) -> None:
    golden.check("batch-plan.txt", str(run("plan", "-f", spec, "--offline", "--rows", "100000")))
    unknown = run("plan", "-f", spec, "--offline")
    assert "unknown: the number of rows is unknown: --rows N, or spec.load.rows" in unknown.out
    plan = json.loads(run("plan", "-f", spec, "--offline", "-o", "json", "--rows", "500").out)
    assert plan["estimate"]["rows"] == 500


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("plan", "-f", "SPEC", "--replicas", "2"), "--replicas: does not apply to a BatchJob"),
        (("plan", "--model", "Qwen/Qwen3-8B", "--rows", "5"), "--rows applies to a BatchJob only"),
        (("deploy", "-f", "SPEC"), 'kind: "BatchJob" is not supported (expected LLMService)'),
        (("render", "-f", "SPEC", "--template-dir", "."), "does not apply to a BatchJob"),
        (("batch", "submit", "--model", "m"), "--output-path and --input are required, or a spec file"),
        (
            (*without("--prompt"), "--prompt", "{{ text", "--dry-run=client"),
            "spec.prompt.template: not a valid Jinja template",
        ),
        ((*JOB, "--input", "notes.txt"), '--input: "notes.txt" is not a path that the pods have'),
        ((*JOB, "--concurrency", "0"), "--concurrency: must be at least 1, not 0"),
        ((*without("--max-model-len"), "--max-model-len", "999999999"), "nothing was rendered or applied"),
        ((*JOB, "--adapter", "a"), "--adapter: requires spec.model.loraPath"),
        ((*JOB, "--tp", "4", "--pp", "4", "--lora-path", "s3://b/a", "--adapter", "a"), "is copied into one pod"),
        ((*JOB, "--input", "-"), "--input - reads all prompts from standard input"),
        ((*TEMPLATED, "Summarize: { text }"), "did you mean {{ text }}?"),
        ((*TEMPLATED, "Summarize: ${title} {0}"), "did you mean {{ title }}?"),
        ((*TEMPLATED, "Summarize: {}"), "did you mean {{ text }}?"),
        ((*TEMPLATED, "Summarize"), "spec.prompt.template: uses no column: every row would have the same"),
        ((*TEMPLATED, "{{ range(3) }}"), "uses no column"),
        ((*TEMPLATED, "{% set t = 1 %}{{ t }}"), "hint: --prompt 'Summarize: {{ text }}'    # text is a column"),
        ((*TEMPLATED, "{{ a }}", "--rename", "answer=a"), 'spec.output.columns.answer: "a" is a column of the input'),
        ((*TEMPLATED, "{{ error }}"), 'spec.output: "error" is a column of the input, and the output has those too'),
        ((*TEXT, "--prompt", "{{ title }}"), 'spec.prompt.template: "title" is not a column: lines of text have one'),
        ((*TEXT, "--prompt-column", "title"), '--prompt-column: "title" is not a column: lines of text have one, text'),
        ((*SUBMIT, "--sampling-arg", "n=2"), "--sampling-arg n: is not supported: there is one answer per row"),
        ((*SUBMIT, "--sampling-arg", "logprobs=1"), "is not supported in a batch job: the output has no column for it"),
        ((*SUBMIT, "--sampling-arg", "temprature=1"), 'parameter "temprature"\n\nhint: did you mean temperature?'),
        ((*SUBMIT, "--vllm-version", "0.22.0", "--sampling-arg", "best=1"), 'vLLM 0.22.0 has no sampling parameter'),
        ((*SUBMIT, "--input", "s3://b/a.jsonl.gz"), '"s3://b/a.jsonl.gz" is compressed'),
        ((*SUBMIT, "--input", "s3://bucket"), "is inside an input folder: answers would become rows"),
        (
            (*without("--output-path"), "--output-path", "s3://anonymous@bucket/out", "--no-wait"),
            "writing to an object store takes credentials",
        ),
        ((*SUBMIT, "--input", "s3://anonymous@"), '"s3://anonymous@" names no bucket'),
    ],
)  # fmt: skip
def test_what_is_rejected_before_anything_is_applied(
    run: Run, api: FakeAPI, spec: str, arguments: tuple[str, ...], error: str
) -> None:
    result = run(*(spec if one == "SPEC" else one for one in arguments))
    assert result.code != 0
    assert error in result.err
    assert api.requests == []


@pytest.mark.parametrize(
    "flags",
    [
        ("--sampling-arg", "n=1"),
        ("--sampling-arg", "best_of=1"),
        ("--sampling-arg", "min_p=0.1", "--sampling-arg", "presence_penalty=1", "--sampling-arg", "ignore_eos=true"),
        ("--input", "s3://anonymous@public/in.jsonl"),
        ("--lora-path", "s3://anonymous@public/adapters", "--adapter", "a"),
        ("--system", "You are { brief }."),
        ("--system", "You are {{ error | default('brief') }}{% if answer is defined %}.{% endif %}"),
    ],
)
def test_what_is_accepted_as_it_was_meant(run: Run, flags: tuple[str, ...]) -> None:
    result = run(*JOB, *flags, "--dry-run=client")
    assert result.code == 0, result.err
    assert json.loads(list(yaml.safe_load_all(result.out))[1]["data"]["settings.json"])["prompt"]["template"]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (
            ("--input", "s3://b/a.jsonl", "--output-path", "s3://b/o"),
            "--input-format openai, if the lines are requests",
        ),
        (
            ("--input", "s3://b/a.xlsx", "--output-path", "s3://b/o", "--prompt", "{{ text }}"),
            "openai (--input-format)",
        ),
    ],
)
def test_hints_name_the_format(run: Run, arguments: tuple[str, ...], hint: str) -> None:
    result = run("batch", "submit", *FLAGS, *arguments, "--dry-run=client")
    assert result.code == 2
    assert hint in result.err


def test_prompts_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ("batch", "submit", *FLAGS, "--input", "-", "--output-path", "s3://b/out", "--dry-run=client")
    names = []
    for text in (b"Why?\n\nWhat?\n", b"Who?\n"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        objects = list(yaml.safe_load_all(run(*flags).out))
        settings = json.loads(objects[1]["data"]["settings.json"])
        assert settings["input"]["prompts"] == [line for line in text.decode().splitlines() if line]
        names.append(objects[2]["metadata"]["name"])
    assert names[0] != names[1]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"text": "x"}\n', 1),
        ('Why?\n\n {"text": "x"}\n', 3),
        ('[{"text": "x"}, {"text": "y"}]', 1),
        ('{"text": "x"}\n{"text": \n', 1),
    ],
)
def test_rows_with_columns_from_standard_input_are_not_taken_for_prompts(
    text: str, line: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("batch", "submit", *FLAGS, "--input", "-", "--output-path", "s3://b/out", "--dry-run=client")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    result = run(*flags, "--prompt", "{{ text }}")
    assert (result.code, result.out) == (2, "")
    assert f"--input -: line {line} is JSON" in result.err

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    _, config, _ = yaml.safe_load_all(run(*flags, "--input-format", "text").out)
    settings = json.loads(config["data"]["settings.json"])
    assert settings["input"]["prompts"] == [one for one in text.splitlines() if one]


@pytest.mark.parametrize("text", ["[1] is the first footnote", "{{ text }} is a template", "[]", "[1, 2]", '"quoted"'])
def test_prompts_with_brackets_are_prompts(text: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    flags = ("batch", "submit", *FLAGS, "--input", "-", "--output-path", "s3://b/out", "--dry-run=client")
    assert run(*flags).code == 0


def test_submit_applies_and_submits_again_what_has_ended(run: Run, api: FakeAPI) -> None:
    first = run(*SUBMIT, "-o", "name", "--rows", "1000", "--input-tokens", "500", "--output-tokens", "100")
    assert first.code == 0, first.err
    assert "1,000 rows in about" in first.err
    assert [line.rsplit("-", 1)[0] for line in first.out.splitlines()] == [
        "configmap/job-code", "configmap/job-settings", "rayjob.ray.io/job",
    ]  # fmt: skip

    again = run(*SUBMIT)
    assert again.code != 0
    assert "batch job job is running in namespace llm (just submitted)" in again.err

    api.update("kuberay-operator", "RayJob", "job", status={"jobDeploymentStatus": "Failed"})
    old = api.names("ConfigMap")
    dry = run(*SUBMIT, "--max-tokens", "5", "--dry-run=server")
    assert "rayjob/job has ended (Failed) and would be replaced" in dry.err
    assert api.names("ConfigMap") == old
    replaced = run(*SUBMIT, "--max-tokens", "5")
    assert replaced.code == 0, replaced.err
    assert "rayjob/job has ended (Failed); waiting for it and its pods to be deleted" in replaced.err
    assert "status" not in api.stored("RayJob", "job")
    # The code is the same; the settings of the first run are gone.
    assert len(api.names("ConfigMap")) == 2
    assert set(api.names("ConfigMap")) != set(old)


def test_a_job_that_cannot_be_deleted_is_not_replaced(run: Run, api: FakeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayllm_ctl.workflows.batch.submit.DELETION_SECONDS", 0.0)
    assert run(*SUBMIT).code == 0
    held = {**api.stored("RayJob", "job")["metadata"], "finalizers": ["example.com/held"]}
    api.update("kuberay-operator", "RayJob", "job", status={"jobDeploymentStatus": "Failed"}, metadata=held)
    result = run(*SUBMIT, "--max-tokens", "5")
    assert result.code == 3
    assert "job still exists after" in result.err
    assert "RayJob job: finalizers example.com/held; being deleted since" in result.err
    assert "kubectl get rayjob job -n llm -o yaml" in result.err
    assert api.count("PATCH", "/rayjobs/job") == 1


def test_a_job_that_another_client_has_created_is_not_changed(run: Run, api: FakeAPI) -> None:
    assert run(*SUBMIT).code == 0
    api.update("kuberay-operator", "RayJob", "job", status={"jobDeploymentStatus": "Failed"})

    def create_again(_request: Request) -> None:
        if api.count("DELETE", "/rayjobs/job") and not api.names("RayJob"):
            api.put(kind="RayJob", metadata={"name": "job", "labels": {BATCH: "job"}})

    api.answer("GET", "/rayjobs/job", create_again)
    result = run(*SUBMIT, "--max-tokens", "5")
    assert result.code == 1
    assert "rayjob/job was created by another client" in result.err
    assert api.count("PATCH", "/rayjobs/job") == 1


def test_a_service_of_the_same_name_is_deleted_without_the_job(run: Run, api: FakeAPI) -> None:
    assert run(*SUBMIT).code == 0
    service = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--offline", "--gpu", "L4", "--max-model-len", "8192")
    assert run("deploy", *service, "--name", "job", "-n", "llm").code == 0
    deleted = run("delete", "job", "-n", "llm", "--no-wait")
    assert deleted.code == 0, deleted.err
    assert api.names("RayJob") == ["job"]
    assert len(api.names("ConfigMap")) == 2


def test_the_cluster_of_a_job_has_to_exist(run: Run, api: FakeAPI) -> None:
    result = run(*SUBMIT, "--cluster", "pool")
    assert "spec.cluster: there is no raycluster pool in namespace llm" in result.err
    assert api.names("RayJob") == []


def test_a_failed_download_is_no_answer(run: Run, api: FakeAPI) -> None:
    Downloads(api, DENIED)
    api.put(**live_claim())
    result = run(*JOB, "--mirror", "claim/models")
    assert result.code == 7
    assert "DownloadUnauthorized" in result.err
    assert "rayjob/job was not applied" in result.err
    assert api.names("RayJob") == []


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (None, "continues to download meta-llama/Llama-3.1-8B-Instruct; the batch job was not applied"),
        (True, "interrupted: meta-llama/Llama-3.1-8B-Instruct is downloaded; the batch job was not applied"),
    ],
)
def test_an_interruption_says_what_continues(
    end: bool | None, message: str, run: Run, api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    Downloads(api, end)
    api.put(**live_claim())
    handle = Display.handle

    def interrupted(self: Display, event: Event) -> None:
        handle(self, event)
        if isinstance(event, Downloading):
            raise KeyboardInterrupt

    monkeypatch.setattr(Display, "handle", interrupted)
    result = run(*JOB, "--mirror", "claim/models")
    assert result.code == 130
    assert message in result.err
    assert api.names("RayJob") == []


def test_an_interruption_after_the_rayjob_was_applied(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = Display.handle

    def interrupted(self: Display, event: Event) -> None:
        handle(self, event)
        if isinstance(event, Applied) and event.kind == "RayJob":
            raise KeyboardInterrupt

    monkeypatch.setattr(Display, "handle", interrupted)
    result = run(*SUBMIT)
    assert result.code == 130
    assert "interrupted: the job job keeps running" in result.err
    assert "rayllm-ctl batch watch job -n llm" in result.err


def test_the_time_limit_is_that_of_the_download_and_the_job(
    run: Run, api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    Downloads(api, True)
    api.put(**live_claim())
    limits: list[float] = []

    def followed(*arguments: object) -> int:
        limits.append(arguments[4])  # type: ignore[arg-type]
        return 0

    monkeypatch.setattr(follow, "follow_to_end", followed)
    assert run(*JOB, "--mirror", "claim/models", "--timeout", "10m").code == 0
    (left,) = limits
    assert 0 < left < 600
