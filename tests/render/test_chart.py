"""The Helm chart: current, its values the values of `render`, and the translation of templates one by one.

That Helm lays out the same objects with it is tested in e2e/, with Helm itself.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from e2e.selectors import unmatched
from rayllm_ctl.cli import app
from rayllm_ctl.errors import UserError
from rayllm_ctl.model.spec.fact_sources import OFFLINE
from rayllm_ctl.model.spec.service import Accelerator, Engine, LLMService, Model
from rayllm_ctl.model.text import yaml_text as yamltext
from rayllm_ctl.render import manifests
from rayllm_ctl.render.changes import changes
from rayllm_ctl.render.helm.values import helm_values
from rayllm_ctl.render.reads import fields_read
from rayllm_ctl.render.values import Values, values_of
from rayllm_ctl.specfile import load_file
from rayllm_ctl.workflows.plan.model import make_plan
from scripts.helmchart import form, gotemplate, texts
from scripts.helmchart.chart import CHART, files
from scripts.helmchart.texts import EDITABLE
from tests.render.plans import tiny
from tests.render.test_specs import SPECS

GENERATED = files()


@functools.cache
def validator() -> Any:
    return jsonschema_rs.validator_for(form.schema())


def translated(source: str) -> str:
    template = gotemplate.read(source)
    macros = gotemplate.macros_of([template])
    definitions = [gotemplate.definition(macro, macros) for macro in macros.values()]
    return "".join(definitions) + gotemplate.body(template, macros)


@pytest.mark.parametrize("name", GENERATED)
def test_the_chart_is_current(name: str) -> None:
    assert (CHART / name).read_text(encoding="utf-8") == GENERATED[name], "make chart"


def test_no_file_of_the_chart_is_left_over() -> None:
    by_hand = {
        "templates/_checks.tpl",
        "templates/_helpers.tpl",
        "templates/validate.yaml",
        "templates/NOTES.txt",
        ".helmignore",
    }
    there = {str(path.relative_to(CHART)) for path in CHART.rglob("*") if path.is_file()}
    assert there == set(GENERATED) | by_hand


def test_templates_read_every_value() -> None:
    assert {field.name for field in dataclasses.fields(Values)} <= set(fields_read())


def test_no_default_would_be_merged_into_a_users_mapping() -> None:
    """Helm merges mappings: a default key would stay beside the user's."""

    def filled(value: form.Value) -> list[str]:
        if value.section is not None:
            return [path for below in form.elements(value) for path in filled(below)]
        return [value.path] if isinstance(value.default, dict) and value.default else []

    assert [path for value in form.values() for path in filled(value)] == ["labels"]


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_the_schema_accepts_the_values_of_a_spec(spec: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["render", "--offline", "--format", "helm-values", "-f", str(spec)]) == 0
    written = yaml.load(capsys.readouterr().out, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    validator().validate(written)


@pytest.mark.parametrize("spec", SPECS, ids=lambda path: path.stem)
def test_every_selector_follows_the_name(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the chart lays the objects out under another name: its templates are these, and its values those of the plan.

    e2e/test_chart.py does it with Helm itself.
    """
    plan = make_plan(load_file(spec), OFFLINE)
    assert unmatched(list(manifests.laid_out(plan).values())) == []
    planned = values_of(plan)
    monkeypatch.setattr(manifests, "values_of", lambda _plan: dataclasses.replace(planned, name="blue"))
    renamed = list(manifests.laid_out(plan).values())
    (service,) = (item for item in renamed if item["kind"] in ("RayService", "RayCluster"))
    assert service["metadata"]["name"] == "blue"
    assert unmatched(renamed) == []


def test_the_schema_rejects_what_no_template_reads() -> None:
    assert validator().is_valid(form.defaults())
    for change in ({"replicas": 2}, {"engine": {"maxModelLength": 1}}, {"storage": [{"name": "x"}]}, {"name": "Upper"}):
        assert not validator().is_valid(form.defaults() | change), change


def test_every_value_is_described() -> None:
    def silent(value: form.Value) -> list[str]:
        below = [path for part in form.elements(value) for path in silent(part)]
        return below if texts.about(value) else [value.path, *below]

    assert [path for value in form.values() for path in silent(value)] == []


def test_what_may_be_edited_exists() -> None:
    for path in EDITABLE:
        found: Any = form.defaults()
        for key in path.split("."):
            assert key in found, path
            found = found[key]


def test_a_number_that_helm_would_round_is_rejected() -> None:
    service = LLMService(
        "tiny",
        Model("tiny", path="/m"),
        engine=Engine(image="r/i:1", args={"seed": 2**53 + 1}),
        accelerator=Accelerator("cpu"),
    )
    with pytest.raises(UserError, match=r"engine\.args\.seed: Helm reads 9007199254740993 as a floating-point number"):
        helm_values(tiny(service))


def test_values_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--model", "Qwen/Qwen3-8B", "--gpu", "H100-80GB", "--name", "qwen", "--env", "A=b", "--offline"]
    assert app.run(["render", *flags, "--format", "helm-values", "-o", "json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["name"], values["serve"]["modelId"]) == ("qwen", "Qwen/Qwen3-8B")
    assert {one["name"]: one["value"] for one in values["head"]["env"]}["A"] == "b"
    assert not {"app.kubernetes.io/managed-by", "app.kubernetes.io/instance"} & set(values["labels"])


def test_helm_escapes_what_render_escapes() -> None:
    helpers = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    unsafe = re.sub(r"\\u([0-9a-f]{4})|\\U0*([0-9a-f]+)", lambda m: rf"\x{{{m[1] or m[2]}}}", yamltext._UNSAFE)
    assert f'regexFindAll "{unsafe}"'.replace("\\", "\\\\") in helpers


@pytest.mark.parametrize(
    ("jinja", "go"),
    [
        ("a: {{ worker.max_workers | yaml }}\n", '\na: {{ include "rayllm.yaml" $.Values.worker.maxWorkers }}'),
        ("a: {{ x | plain | yaml }}\n", '\na: {{ include "rayllm.yaml" $.Values.x }}'),
        ("a: {{ x | string | yaml }}\n", '\na: {{ include "rayllm.yaml" (include "rayllm.string" $.Values.x) }}'),
        ("a: {{ (x * 2) | yaml }}\n", '\na: {{ include "rayllm.yaml" (mul $.Values.x 2) }}'),
        (
            'a: {{ ("x" ~ name) | yaml }}\n',
            '\na: {{ include "rayllm.yaml" (printf "%v%v" "x" (include "rayllm.name" $)) }}',
        ),
        ("{# why #}\na: 1\n", "\n{{- /* why */}}\na: 1"),
        ("{% raw %}a: '{{ x }}'{% endraw %}\n", """\na: '{{ "{{" }} x }}'"""),
        (
            "{% if x is not none and not y %}\na: 1\n{% elif y > 0 %}\na: 2\n{% else %}\na: 3\n{% endif %}\n",
            '\n{{- if and (not (kindIs "invalid" $.Values.x)) (not $.Values.y) }}\na: 1'
            "\n{{- else if gt (int $.Values.y) 0 }}\na: 2\n{{- else }}\na: 3\n{{- end }}",
        ),
        (
            "{% for key, one in x | dictsort(true) %}\n{% for item in one %}\n- {{ item.key | yaml }}\n"
            "{% endfor %}\n{% endfor %}\n",
            "\n{{- range $key, $one := $.Values.x }}\n{{- range $item := $one }}"
            '\n- {{ include "rayllm.yaml" $item.key }}\n{{- end }}\n{{- end }}',
        ),
        (
            "{% macro part(one) %}\nb: {{ one.c | yaml }}\n{% endmacro %}\na:\n  {{ part(x) | indent(2) }}\nz: 1\n",
            '{{- define "rayllm.part" }}\nb: {{ include "rayllm.yaml" $.one.c }}\n{{- end }}\n'
            '\na:\n  {{- include "rayllm.part" (dict "one" $.Values.x) | replace "\\n" "\\n  " }}\nz: 1',
        ),
        (
            "{% macro part(one) %}\nb: {{ x | yaml }}\n{% endmacro %}\n{{ part(1) }}\n",
            '{{- define "rayllm.part" }}\nb: {{ include "rayllm.yaml" $.root.Values.x }}\n{{- end }}\n'
            '\n{{- include "rayllm.part" (dict "root" $ "one" 1) }}',
        ),
    ],
)  # fmt: skip
def test_translation(jinja: str, go: str) -> None:
    assert translated(jinja) == go


@pytest.mark.parametrize(
    "jinja",
    [
        "{{ x | upper | yaml }}\n",
        "{{ x[0] | yaml }}\n",
        "{{ x.get('a') | yaml }}\n",
        "a: {% if x %}1{% endif %}\n",
        "{% set y = x %}\n",
        "{% for y in x if y %}\n{% endfor %}\n",
        "{% macro part() %}\na: 1\n{% endmacro %}\n    {{ part() | indent(2) }}\n",
    ],
)
def test_what_has_no_translation_is_rejected(jinja: str) -> None:
    with pytest.raises(gotemplate.Untranslatable):
        translated(jinja)


_PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text("ab", max_size=1), below, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text("ab", max_size=1), _PLAIN), st.dictionaries(st.text("ab", max_size=1), _PLAIN))
def test_changes_make_the_new_object_of_the_old(old: dict[str, Any], new: dict[str, Any]) -> None:
    made: Any = copy.deepcopy(old)
    for change in changes(old, new):
        *way, last = change.path
        at = made
        for step in way:
            at = at[step]
        if change.op == "remove":
            del at[last]
        else:
            at[last] = at[last] + change.value if change.op == "append" else change.value
    assert json.dumps(made, sort_keys=True) == json.dumps(new, sort_keys=True)
