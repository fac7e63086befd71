"""BatchJob files: what they become, what is said about wrong ones, and whether every field is documented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.batch import BatchJob
from rayllm_ctl.specfile import load, load_any_file
from rayllm_ctl.specfile.explain import explain
from rayllm_ctl.specfile.load import load_any
from rayllm_ctl.specfile.schema import schema, text
from rayllm_ctl.specfile.write import to_yaml
from tests.specfile.test_explain import below
from tests.specfile.test_write import properties

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "tests" / "render" / "batchspecs").glob("*.yaml"))

START = """\
apiVersion: rayllm.io/v1alpha1
kind: BatchJob
metadata: {name: summaries}
spec:
  model: {id: Qwen/Qwen3-8B}
  input: {paths: [s3://bucket/in.jsonl]}
  output: {path: s3://bucket/out}
  prompt: {template: "{{ text }}"}
"""


def problems(old: str, new: str) -> str:
    with pytest.raises(UsageError) as caught:
        load_any(START.replace(old, new), source="job.yaml")
    return caught.value.message


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_a_file_is_written_as_it_was_read(spec: Path) -> None:
    batch = load_any_file(spec)
    assert isinstance(batch, BatchJob)
    assert load_any(to_yaml(batch), source="again") == batch


def test_a_batch_job_is_no_service() -> None:
    with pytest.raises(UsageError, match=r'job.yaml:2: kind: "BatchJob" is not supported \(expected LLMService\)'):
        load(START, source="job.yaml")
    assert isinstance(load_any(START, source="job.yaml"), BatchJob)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("in.jsonl]", "in.jsonl], formt: csv", "job.yaml:6: spec.input.formt: unknown field"),
        ("in.jsonl", "in.bin", "spec.input.format: required: the extensions of the paths do not tell it"),
        ("in.jsonl]", "in.jsonl], prompts: [x]", "spec.input: paths and prompts cannot be combined"),
        ("paths: [s3://bucket/in.jsonl]", "{}", "job.yaml:6"),
        ("s3://bucket/in.jsonl", "in.jsonl", 'spec.input.paths[0]: "in.jsonl" is not a path that the pods have'),
        ("s3://bucket/in.jsonl", "/in.jsonl", 'spec.input.paths[0]: "/in.jsonl" is not below a mounted volume'),
        ("s3://bucket/in.jsonl", "ftp://x/in.jsonl", "spec.input.paths[0]: ftp:// is not supported"),
        ("s3://bucket/in.jsonl", "https://x/*.jsonl", "spec.input.paths[0]: an https:// address names one file"),
        ("s3://bucket/in.jsonl", "https://me:pw@x/in.jsonl", "spec.input.paths[0]: contains credentials"),
        ("in.jsonl]", "in.jsonl], keepEmptyLines: true", "spec.input.keepEmptyLines: applies to text only"),
        ("in.jsonl]", "in.jsonl], types: {a: int}", "spec.input.types: applies to csv only, not to jsonl"),
        ("in.jsonl]", "in.jsonl], format: openai", "spec.prompt: does not apply to openai"),
        ("s3://bucket/out", "https://bucket/out", "spec.output.path: https:// is not supported"),
        ("s3://bucket/out", "s3://bucket/in.jsonl", "spec.output.path: is also an input"),
        ("bucket/out", "bucket/out, columns: {anwser: x}", "spec.output.columns.anwser: is not an added column"),
        ("bucket/out", "bucket/out, columns: {answer: error}", 'spec.output.columns.error: "error" is the name of'),
        ("bucket/in.jsonl]", "bucket/in.jsonl, s3://bucket/b.csv]", "the extensions of the paths differ (csv, jsonl)"),
        ("bucket/in.jsonl", "bucket/out/*.jsonl", 'spec.output.path: contains the input "s3://bucket/out/*.jsonl"'),
        ("bucket/in.jsonl", "bucket/out/b/c.jsonl", 'spec.output.path: contains the input "s3://bucket/out/b/c.jsonl"'),
        ("s3://bucket/out", "s3://bucket", 'spec.output.path: contains the input "s3://bucket/in.jsonl"'),
        ("in.jsonl]", "**], format: jsonl", 'spec.output.path: is matched by the input "s3://bucket/**"'),
        ("bucket/in.jsonl", "anonymous@bucket/o*/*.parquet", "spec.output.path: is matched by the input"),
        ("bucket/out", "bucket/in.jsonl/", "spec.output.path: is also an input"),
        ("bucket/out", "bucket/out, columns: {answer: q}}\n  sampling: {columns: {seed: q}", 'answer: "q" is a column'),
        ("bucket/out}", "bucket/out}\n  sampling: {columns: {seed: error}}", 'spec.output: "error" is a column of the'),
        ("bucket/out", "bucket/out, format: openai", "spec.output.format: openai requires spec.input.format: openai"),
        ('{template: "{{ text }}"}', "{}", "spec.prompt: requires template, column or messages for rows of jsonl"),
        ('"{{ text }}"', '"{{ text }}", column: a', "spec.prompt: must have one of template, column, messages"),
        ('"{{ text }}"', '"{{ text }}", chat: false, system: x', "spec.prompt.system: requires the model's chat"),
        ("  prompt:", "  sampling: {topP: 2}\n  prompt:", "spec.sampling.topP: must be greater than 0"),
        ("  prompt:", "  sampling: {args: {top_p: 1}}\n  prompt:", "spec.sampling.args.top_p: has a field of its own"),
        ("  prompt:", "  task: embed\n  sampling: {seed: 1}\n  prompt:", "spec.sampling: does not apply to task embed"),
        ("  prompt:", "  concurrency: {min: 3, max: 2}\n  prompt:", "spec.concurrency.min: 3 is greater than"),
        ("  prompt:", "  job: {deadline: 1500ms}\n  prompt:", "spec.job.deadline: must be a whole number of seconds"),
        ("  prompt:", "  storage: {anonymous: true}\n  prompt:", "spec.storage.anonymous: cannot be combined with an"),
        ("  prompt:", "  storage: {endpoint: 'http://a:b@c'}\n  prompt:", "spec.storage.endpoint: is not a valid"),
        ("  prompt:", "  cluster: pool\n  prompt:", "spec.accelerator.gpu: required with spec.cluster"),
        ("  prompt:", "  cluster: p\n  pods: {head: {labels: {a: b}}}\n  prompt:", "spec.pods: does not apply with"),
        ("  prompt:", "  engine: {kind: transformers}\n  prompt:", "spec.engine.kind: "),
        ("  prompt:", "  engine: {args: {enable_lora: true}}\n  prompt:", "spec.engine.args.enable_lora: cannot"),
        ("Qwen3-8B}", "Qwen3-8B, adapter: a}", "spec.model.adapter: requires spec.model.loraPath"),
        ("Qwen3-8B}", "Qwen3-8B, loraPath: /a}", "spec.model.loraPath: requires spec.model.adapter for rows of jsonl"),
        ("Qwen3-8B}", "Qwen3-8B, loraPath: a, adapter: b}", "spec.model.loraPath: \"a\" is neither an absolute path"),
        ("Qwen3-8B}", "Qwen3-8B, loraPath: /a, adapter: b/c}", "spec.model.adapter: \"b/c\" is not the name of a sub"),
        ("Qwen3-8B}", "Qwen3-8B, loraPath: 's3://k:s@b/a', adapter: c}", "spec.model.loraPath: contains credentials"),
        ("id: Qwen/Qwen3-8B", "id: m, loraPath: /a, adapter: m", "spec.model.adapter: \"m\" is the name of the model"),
        ("  prompt:", "  parallelism: {tensor: 0}\n  prompt:", "spec.parallelism.tensor: must be at least 1, not 0"),
    ],
)  # fmt: skip
def test_problems(old: str, new: str, problem: str) -> None:
    assert problem in problems(old, new)


@pytest.mark.parametrize("given", ["s3://bucket/*.jsonl", "s3://bucket/[a-n]*/*.jsonl", "s3://bucket/outer/in.jsonl"])
def test_an_output_beside_the_input_is_valid(given: str) -> None:
    text = START.replace("s3://bucket/in.jsonl", f"'{given}'")
    assert isinstance(load_any(text, source="job.yaml"), BatchJob)


def test_lines_of_text_have_a_column_that_no_answer_can_be_called() -> None:
    renamed = START.replace("bucket/out}", "bucket/out, columns: {answer: text}}").replace("in.jsonl", "in.txt")
    with pytest.raises(UsageError) as caught:
        load_any(renamed, source="job.yaml")
    assert (
        'spec.output.columns.answer: "text" is a column of the input, and the output has those' in caught.value.message
    )
    assert "--rename answer=ANOTHER_NAME" in caught.value.hints[0]


def test_lines_of_openai_files_name_their_adapter() -> None:
    start = START.replace("in.jsonl]", "in.jsonl], format: openai").replace('  prompt: {template: "{{ text }}"}\n', "")
    lora = start.replace("Qwen3-8B}", "Qwen3-8B, loraPath: gs://bucket/adapters}")
    assert isinstance(load_any(lora, source="job.yaml"), BatchJob)
    with pytest.raises(UsageError, match=r"spec\.model\.adapter: does not apply to openai: every line names"):
        load_any(lora.replace("adapters}", "adapters, adapter: a}"), source="job.yaml")
    with pytest.raises(UsageError, match=r"spec\.model\.loraPath: is not supported for openai on CPUs"):
        load_any(lora + "  accelerator: {kind: cpu}\n", source="job.yaml")


@pytest.mark.parametrize(
    ("given", "model", "output", "problem"),
    [
        ("gs://bucket/in.jsonl", "", "/data/out", None),
        ("/data/in.jsonl", "", "/data/out", "spec.storage.anonymous: has no effect"),
        ("/data/in.jsonl", ", loraPath: gs://bucket/lora, adapter: a", "/data/out", None),
        (
            "gs://bucket/in.jsonl",
            "",
            "gs://bucket/out",
            "spec.storage.anonymous: cannot be combined with an output in an",
        ),
    ],
)
def test_public_buckets(given: str, model: str, output: str, problem: str | None) -> None:
    volume = "{name: data, mountPath: /data, persistentVolumeClaim: {claimName: data}, readOnly: false}"
    text = START.replace("s3://bucket/in.jsonl", given).replace("s3://bucket/out", output)
    text = text.replace("Qwen3-8B}", f"Qwen3-8B{model}}}") + f"  storage: {{anonymous: true, volumes: [{volume}]}}\n"
    if problem is None:
        assert isinstance(load_any(text, source="job.yaml"), BatchJob)
        return
    with pytest.raises(UsageError) as caught:
        load_any(text, source="job.yaml")
    assert problem in caught.value.message


def test_every_problem_is_reported_at_once() -> None:
    found = problems("s3://bucket/in.jsonl", "in.bin").splitlines()
    assert [line.split(": ")[1] for line in found] == ["spec.input.paths[0]", "spec.input.format"]


def test_the_published_schema_is_current_and_every_field_is_documented() -> None:
    assert (ROOT / "docs" / "batchjob.schema.json").read_text(encoding="utf-8") == text(BatchJob)
    reference = "".join(
        (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("reference/batch-spec.md", "reference/spec.md")
    )
    missing = {name for name in properties(schema(BatchJob)) if not re.search(rf"\b{name}\b", reference)}
    assert missing == set()


def test_explain() -> None:
    assert [field.path for field in below(explain("batchjob")) if not field.description] == []
    assert explain("batchjob.spec.input.format").values[0] == "text"
    with pytest.raises(UsageError) as caught:
        explain("BatchJob.spec.imput")
    assert caught.value.hints == ("rayllm-ctl explain BatchJob.spec.input",)
