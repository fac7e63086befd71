from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from rayllm_ctl.cli import app
from rayllm_ctl.cli.spec_flags import FLAGS
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.text.explanation import FieldExplanation
from rayllm_ctl.specfile.explain import explain
from tests.conftest import Golden


def below(field: FieldExplanation) -> Iterator[FieldExplanation]:
    for child in field.fields:
        yield child
        yield from below(child)


def test_every_field_has_a_description() -> None:
    assert [field.path for field in below(explain()) if not field.description] == []


def test_no_description_gives_the_units_of_the_code() -> None:
    """In the file a time is 30s, not a number of seconds."""
    documents = (explain(), explain("batchjob"))
    assert [one.path for top in documents for one in below(top) if "are seconds" in one.description] == []
    assert [one.path for top in documents for one in below(top) if "is seconds" in one.description] == []


def test_every_flag_is_shown_at_its_field() -> None:
    shown = {field.attribute for field in below(explain())}
    # A fixed number of replicas is two fields.
    assert set(FLAGS) - shown == {"replicas.fixed"}


def test_a_leaf() -> None:
    field = explain("spec.replicas.max")
    assert (field.name, field.type, field.default, field.required) == ("max", "integer", "1", False)
    assert explain("spec.upgrade.strategy").values[0] == "NewCluster"
    assert explain("spec.engine.args").type == "map[string]any"
    assert explain("spec.storage.volumes.mountPath").required
    assert explain("spec.replicas.upscaleDelay").type == "duration"
    assert explain("spec.storage.volumes.secret.secretName").type == "string"


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("spec.replica.max", 'field "replica" does not exist in spec', "rayllm-ctl explain spec.replicas"),
        ("metdata", 'field "metdata" does not exist in LLMService', "rayllm-ctl explain metadata"),
        ("spec.model.id.x", "spec.model.id has no fields", "rayllm-ctl explain spec.model.id"),
        ("spec.rend", 'field "rend" does not exist in spec', "rayllm-ctl explain spec.renderVersion"),
    ],
)
def test_unknown_fields(path: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        explain(path)
    assert caught.value.message == message
    assert caught.value.hints == (hint,)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("section", ["spec.replicas"]), ("field", ["spec.upgrade.strategy"]), ("tree", ["spec.model", "--recursive"])],
)
def test_output(name: str, arguments: list[str], golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["explain", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    golden.check(f"explain-{name}.txt", out)


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("replicas", "rayllm-ctl explain spec.replicas"),
        ("maxModelLen", "rayllm-ctl explain spec.engine.maxModelLen"),
        ("batchjob.maxTokens", "rayllm-ctl explain batchjob.spec.sampling.maxTokens"),
    ],
)
def test_a_field_without_its_path_is_found(field: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["explain", field]) == 2
    assert hint in capsys.readouterr().err.splitlines()[2]


def test_the_kind_may_stand_before_the_path(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for prefix in ("", "llmservice.", "LLMService.", "llmservices."):
        assert app.run(["explain", f"{prefix}spec.replicas"]) == 0
        outputs.append(capsys.readouterr().out)
    assert len(set(outputs)) == 1


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["explain", "spec.replicas.max", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["specKind"], found["path"], found["flag"]) == ("LLMService", "spec.replicas.max", "--max-replicas")
    for flags, below in (((), False), (("--recursive",), True)):
        assert app.run(["explain", "spec", "-o", "yaml", *flags]) == 0
        found = yaml.safe_load(capsys.readouterr().out)
        assert any(one["fields"] for one in found["fields"]) is below
