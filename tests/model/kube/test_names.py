"""Names, labels, quantities and durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.model.kube.labels import label_value, service_labels
from rayllm_ctl.model.kube.names import did_you_mean, nearest, service_name, service_name_problem
from rayllm_ctl.model.kube.quantities import format_duration, parse_duration, parse_quantity
from rayllm_ctl.model.text.patterns import LABEL_VALUE


@given(st.text())
def test_every_model_gets_a_name_that_kuberay_takes(model: str) -> None:
    assert service_name_problem(service_name(model)) is None


def test_the_name_is_the_model_s() -> None:
    assert service_name("Qwen/Qwen3-32B") == "qwen3-32b"
    assert service_name("01-ai/Yi-34B") == "yi-34b"
    assert service_name("org/01") == "llm-01"


@given(st.text())
def test_every_version_becomes_a_label_value(text: str) -> None:
    assert LABEL_VALUE.fullmatch(label_value(text))


def test_six_recommended_labels() -> None:
    labels = service_labels("qwen", "0.29.0+cu130")
    assert labels["app.kubernetes.io/version"] == "0.29.0-cu130"
    assert len(labels) == 6
    assert all(LABEL_VALUE.fullmatch(value) for value in labels.values())


def test_nearest_word() -> None:
    assert nearest("maxModelLenght", ["maxModelLen", "maxNumSeqs"]) == "maxModelLen"
    assert nearest("zzz", ["maxModelLen"]) is None


@pytest.mark.parametrize(
    ("text", "number"), [("500m", 0.5), ("16Gi", 16 * 2**30), ("1e3", 1000), ("2k", 2000), (".5", 0.5)]
)
def test_quantities(text: str, number: float) -> None:
    assert parse_quantity(text) == number


@pytest.mark.parametrize("text", ["", "16 Gi", "16GB", "m", "1e", "Gi", "١Gi"])
def test_no_quantities(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid quantity"):
        parse_quantity(text)


@pytest.mark.parametrize(("text", "number"), [("90s", 90), ("1h30m", 5400), ("1.5s", 1.5), ("250ms", 0.25), ("0", 0)])
def test_durations(text: str, number: float) -> None:
    assert parse_duration(text) == number


@pytest.mark.parametrize("text", ["", "90", "5q", "-1s", "1 h", "s"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid duration"):
        parse_duration(text)


def test_a_number_without_a_unit_is_shown_with_units() -> None:
    with pytest.raises(ValueError, match='"90" is not a valid duration, such as 90s, 90m or 90h'):
        parse_duration("90")


def test_durations_for_people() -> None:
    assert [format_duration(seconds) for seconds in (8, 130, 3900)] == ["8s", "2m10s", "1h05m"]


@pytest.mark.parametrize(
    ("word", "known", "question"),
    [
        ("modle", ("mode", "model", "models"), "did you mean mode or model?"),
        ("bfloat61", ("auto", "bfloat16", "float16"), "did you mean bfloat16?"),
        ("replcas", ("replicas", "resources"), "did you mean replicas?"),
        ("x", ("model",), ""),
    ],
)
def test_all_names_that_are_as_near_are_suggested(word: str, known: tuple[str, ...], question: str) -> None:
    assert did_you_mean(word, known) == question
