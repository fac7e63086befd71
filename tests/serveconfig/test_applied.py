"""The Serve configuration that a RayService carries as text."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.serveconfig.applied import applied_config, applied_config_if_readable, config_text


def service(text: Any) -> dict[str, Any]:
    return {"metadata": {"name": "chat"}, "spec": {"serveConfigV2": text}}


def test_the_configuration_as_data() -> None:
    item = service("applications:\n- name: a\n")
    assert applied_config(item) == {"applications": [{"name": "a"}]}
    assert config_text(item) == "applications:\n- name: a\n"


@pytest.mark.parametrize("item", [{}, {"spec": None}, {"spec": {}}, service(None), service(""), service("# none\n")])
def test_a_service_without_one_has_an_empty_configuration(item: dict[str, Any]) -> None:
    assert applied_config(item) == {}
    assert applied_config_if_readable(item) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("applications:\n- name: [\n", "rayservice/chat: spec.serveConfigV2:3: not valid YAML: "),
        ("- name: a\n", "rayservice/chat: spec.serveConfigV2:1: expected a mapping with applications"),
        ("applications:\n  limit: .inf\n", "rayservice/chat: spec.serveConfigV2:2: .inf is not a finite number"),
    ],
)
def test_text_that_cannot_be_read_is_named_with_its_place_and_is_not_empty(text: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        applied_config(service(text))
    assert str(raised.value).startswith(message)
    assert applied_config_if_readable(service(text)) is None


def test_an_object_without_a_name_has_the_field_as_its_place() -> None:
    with pytest.raises(UsageError, match=r"^spec\.serveConfigV2:1: expected a mapping"):
        applied_config({"spec": {"serveConfigV2": "text"}})


def test_a_date_is_text_as_kuberay_sends_it() -> None:
    text = "released: 2026-01-31\nat: 2026-01-31T10:00:00Z\n"
    assert applied_config(service(text)) == {"released": "2026-01-31", "at": "2026-01-31T10:00:00Z"}
