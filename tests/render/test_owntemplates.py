"""Templates of the user's own."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from rayllm_ctl.errors import UserError
from rayllm_ctl.model.spec.service import Accelerator, LLMService, Model
from rayllm_ctl.render import render
from rayllm_ctl.render.templating import TEMPLATES
from rayllm_ctl.render.values import Values
from tests.render.plans import H100, plan

PLAN = plan(LLMService("qwen", Model("Qwen/Qwen3-8B"), accelerator=Accelerator("gpu", "H100-80GB")), H100)
DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "templates.md"

CONFIG_MAP = """apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name | yaml }}
data:
  image: {{ runtime.image | yaml }}
"""


def write(folder: Path, **templates: str) -> Path:
    for name, text in templates.items():
        (folder / f"{name}.yaml.j2").write_text(text, encoding="utf-8")
    return folder


def test_the_example_of_the_documentation_adds_an_object(tmp_path: Path) -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.S)
    [service, added] = render(PLAN, write(tmp_path, queue=example))
    assert [service] == render(PLAN)
    assert added["metadata"] == {"name": "qwen-team", "labels": service["metadata"]["labels"]}
    container = service["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert added["data"] == {"image": container["image"]}


def test_a_template_of_the_same_name_replaces_ours(tmp_path: Path) -> None:
    ours = (TEMPLATES / "rayservice.yaml.j2").read_text(encoding="utf-8")
    changed = ours.replace("  annotations:", "  annotations:\n    example.com/owner: search")
    [service] = render(PLAN, write(tmp_path, rayservice=changed))
    assert service["metadata"]["annotations"]["example.com/owner"] == "search"
    assert "example.com/owner" not in render(PLAN)[0]["metadata"]["annotations"]


def test_a_file_for_imports_is_no_object_and_neither_is_an_empty_one(tmp_path: Path) -> None:
    write(tmp_path, _names="{% macro called(x) %}{{ x | yaml }}{% endmacro %}", nothing="{% if false %}a: b{% endif %}")
    write(tmp_path, own='{% from "_names.yaml.j2" import called %}' + CONFIG_MAP.replace("name | yaml", "called('n')"))
    assert [item["metadata"]["name"] for item in render(PLAN, tmp_path)] == ["qwen", "n"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{% if %}", r"own\.yaml\.j2:1: Expected an expression"),
        ("a: 1\nb: {{ nme }}\n", r"own\.yaml\.j2:2: 'nme' is undefined"),
        ("a: {{ name.x.y }}", r"own\.yaml\.j2:1: .*has no attribute 'x'"),
        ("a: {{ 1 // 0 }}", r"own\.yaml\.j2:1: .*zero"),
        ("a: {{ name | quote }}", r"own\.yaml\.j2:1: No filter named 'quote'"),
        ("{% include '../secret' %}", r"there is no template \.\./secret"),
        ("a: [1", "does not print valid YAML: .*, line"),
        (
            "a: 1\nb: {c: 1,\n c: 2}",
            r'own\.yaml\.j2 does not print valid YAML: duplicate key "c", first in line 2, line 3 of',
        ),
        ("a: b", r"own\.yaml\.j2 does not print a Kubernetes object"),
        ("- a", r"own\.yaml\.j2 does not print a Kubernetes object"),
        ("a: {{ ''.__class__.__mro__ }}", r"access to attribute '__class__' of 'str' object is unsafe"),
        ("a: {{ name.__init__.__globals__ }}", "is unsafe"),
    ],
)
def test_errors_name_the_file_and_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        render(PLAN, write(tmp_path, own=text))


def test_a_serve_configuration_of_the_users_own_has_no_duplicate_keys(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r'serve-config\.yaml\.j2 does not print valid YAML: duplicate key "a"'):
        render(PLAN, write(tmp_path, **{"serve-config": "a: 1\na: 2\n"}))


def test_a_directory_without_templates_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"contains no \*\.yaml\.j2 file"):
        render(PLAN, tmp_path)
    with pytest.raises(UserError, match="No such file or directory"):
        render(PLAN, tmp_path / "absent")


def test_exactly_the_values_are_documented() -> None:
    rows = DOCS.read_text(encoding="utf-8").partition("## Values")[2]
    names = {name for row in re.findall(r"^\| (`.*?) \|", rows, re.M) for name in re.findall(r"`(\w+)`", row)}
    assert names - {"serve_config"} == {field.name for field in dataclasses.fields(Values)}
