"""Fields of a spec that are for the controller, on the command line: each is honored or rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rayllm_ctl.cli import app
from rayllm_ctl.cli.service import resolve_service
from rayllm_ctl.errors import OK, USAGE, UsageError
from rayllm_ctl.model.spec.service import Replicas
from rayllm_ctl.specfile import load
from rayllm_ctl.specfile.write import to_document

HEAD = "apiVersion: rayllm.io/v1alpha1\nkind: {kind}\nmetadata: {{name: q}}\nspec:\n  model: {{id: Qwen/Qwen3-8B}}\n"
SERVICE = HEAD.format(kind="LLMService") + "  accelerator: {gpu: H100-80GB}\n"
BATCH = (
    HEAD.format(kind="BatchJob")
    + "  accelerator: {gpu: H100-80GB}\n  input: {paths: [s3://b/in.txt]}\n  output: {path: s3://b/out/}\n"
)
FIELDS = {"planOnly": "q is to be planned, and not deployed", "suspend": "deploying q would start its pods"}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return tmp_path / "q.yaml"


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = app.run(list(args))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    "command",
    [("deploy", "--offline"), ("deploy", "--dry-run=client"), ("apply",), ("bench", "offline"),
     ("bench", "sweep", "--tp", "1,2")],
    ids=" ".join,
)  # fmt: skip
def test_what_would_start_pods_is_rejected(
    spec: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], field: str
) -> None:
    spec.write_text(f"{SERVICE}  {field}: true\n")
    code, out, err = run(capsys, *command, "-f", str(spec))
    assert (code, out) == (USAGE, "")
    assert f"spec.{field} is true: {FIELDS[field]}" in err
    expected = "rayllm-ctl suspend q" if field == "suspend" else "rayllm-ctl plan -f FILE"
    assert expected in err


def test_the_manifests_are_shown_with_what_becomes_of_them(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_text(SERVICE)
    _, plain, _ = run(capsys, "render", "--offline", "-f", str(spec))
    spec.write_text(f"{SERVICE}  suspend: true\n  planOnly: true\n  renderVersion: v2\n")
    code, out, err = run(capsys, "render", "--offline", "-f", str(spec))
    assert (code, out) == (OK, plain)
    assert err.splitlines() == [
        "spec.planOnly is true: the controller would not apply these manifests",
        "spec.suspend is true: these manifests start the pods, which the controller would delete",
    ]
    assert run(capsys, "plan", "--offline", "-f", str(spec))[0] == OK


def test_a_batch_job_waits_where_its_spec_says_so(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_text(BATCH)
    *_, plain = yaml.safe_load_all(run(capsys, "render", "--offline", "-f", str(spec))[1])
    spec.write_text(f"{BATCH}  suspend: true\n")
    for command in (("render",), ("batch", "submit", "--dry-run=client")):
        code, out, err = run(capsys, *command, "--offline", "-f", str(spec))
        assert code == OK, err
        *_, job = yaml.safe_load_all(out)
        assert job["spec"] == {**plain["spec"], "suspend": True}
        assert "spec.suspend is true: the job starts once it is false" in err
    spec.write_text(f"{BATCH}  suspend: true\n  cluster: pool\n")
    code, _, err = run(capsys, "render", "--offline", "-f", str(spec))
    assert code == USAGE
    assert "spec.suspend: cannot be combined with spec.cluster" in err


def test_a_job_that_is_to_be_planned_is_not_submitted(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_text(f"{BATCH}  planOnly: true\n")
    code, _, err = run(capsys, "batch", "submit", "--offline", "--no-wait", "-f", str(spec))
    assert code == USAGE
    assert "spec.planOnly is true: q is to be planned, and not deployed" in err
    assert run(capsys, "plan", "--offline", "-f", str(spec))[0] == OK


def test_a_word_of_the_controller_is_checked(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec.write_text(f"{SERVICE}  renderVersion: a b\n")
    code, _, err = run(capsys, "render", "--offline", "-f", str(spec))
    assert code == USAGE
    assert 'spec.renderVersion: "a b" is not a valid word' in err


@pytest.mark.parametrize(
    ("replicas", "problem"),
    [
        ("{count: 3, min: 1}", "spec.replicas.min: cannot be combined with spec.replicas.count"),
        ("{count: 3, max: 3}", "spec.replicas.max: cannot be combined with spec.replicas.count"),
        ("{count: 0}", "spec.replicas.count: must be at least 1, not 0"),
        ("{count: 3, initial: 2}", "spec.replicas.initial: 2 is not between spec.replicas.min (3) and max (3)"),
        ("{count: two}", 'spec.replicas.count: expected an integer, found "two"'),
    ],
)
def test_counts_that_are_rejected(replicas: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(f"{SERVICE}  replicas: {replicas}\n", source="q.yaml")
    assert caught.value.message == f"q.yaml:7: {problem}"


def test_a_count_is_a_minimum_and_a_maximum() -> None:
    service = load(f"{SERVICE}  replicas: {{count: 3}}\n", source="q.yaml")
    assert service.replicas == Replicas(min=3, max=3, count=3)
    assert to_document(service)["spec"]["replicas"] == {"count": 3}
    assert load(f"{SERVICE}  replicas: {{count: null, min: 2, max: 4}}\n", source="q.yaml").replicas == Replicas(2, 4)


def test_several_models_have_counts_of_their_own() -> None:
    models = "  models: [{id: a, replicas: {count: 2}}, {id: b}]\n"
    text = SERVICE.replace("  model: {id: Qwen/Qwen3-8B}\n", models).replace("  accelerator: {gpu: H100-80GB}\n", "")
    assert [one.replicas.max for one in load(text, source="q.yaml").models] == [2, 1]
    with pytest.raises(UsageError) as caught:
        load(f"{text}  replicas: {{count: 2}}\n", source="q.yaml")
    assert caught.value.message == "q.yaml:6: spec.replicas.count: belongs to each model where there are several"


@pytest.mark.parametrize(
    ("overrides", "replicas"),
    [
        ({}, Replicas(3, 3, count=3)),
        ({"replicas.fixed": 2}, Replicas(2, 2)),
        ({"replicas.max": 5}, Replicas(3, 5)),
        ({"replicas.min": 1}, Replicas(1, 3)),
        ({"replicas.upscale_delay": 5.0}, Replicas(3, 3, count=3, upscale_delay=5.0)),
    ],
)
def test_flags_go_above_a_count(spec: Path, overrides: dict[str, float], replicas: Replicas) -> None:
    spec.write_text(f"{SERVICE}  replicas: {{count: 3}}\n")
    service = resolve_service(spec, overrides)
    assert service.replicas == replicas
    assert load(yaml.safe_dump(to_document(service)), source="q.yaml") == service


def test_a_count_is_not_changed_for_the_load(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As --replicas 1, which says the same; the minimum and maximum of a file are those before planning."""
    load_of_many = "  load: {rate: 500, inputTokens: 1000, outputTokens: 200}\n"
    spec.write_text(f"{SERVICE}{load_of_many}  replicas: {{count: 1}}\n")
    of_count = run(capsys, "plan", "--offline", "-f", str(spec))
    spec.write_text(f"{SERVICE}{load_of_many}")
    assert of_count == run(capsys, "plan", "--offline", "-f", str(spec), "--replicas", "1")
    assert of_count != run(capsys, "plan", "--offline", "-f", str(spec))
