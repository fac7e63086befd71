"""The templates stay thin: every value goes through the one filter, and undefined names fail."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jinja2
import pytest
from jinja2 import nodes

from rayllm_ctl.render.templating import environment, fill
from rayllm_ctl.render.values import Values

NAMES = environment().list_templates()


def test_there_are_templates() -> None:
    assert {"rayservice.yaml.j2", "serve-config.yaml.j2"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_expression_ends_in_the_quoting_filter(name: str) -> None:
    loader = environment().loader
    assert loader is not None
    source, _, _ = loader.get_source(environment(), name)
    outputs = list(environment().parse(source).find_all(nodes.Output))
    expressions = [node for output in outputs for node in output.nodes if not isinstance(node, nodes.TemplateData)]
    macros = _macros(environment().parse(source))
    assert expressions
    for node in expressions:
        assert isinstance(node, nodes.Filter), f"{name}:{node.lineno}: a bare expression"
        if node.name == "indent":
            # A macro, whose own expressions are checked where it is defined.
            assert isinstance(node.node, nodes.Call)
            assert isinstance(node.node.node, nodes.Name)
            assert node.node.node.name in macros, f"{name}:{node.lineno}: {node.node.node.name} is not a macro"
        else:
            assert node.name == "yaml", f"{name}:{node.lineno}: ends in |{node.name}"
    assert "| safe" not in source


def _macros(template: nodes.Template) -> set[str]:
    """The macros that a template defines or imports."""
    imported = {str(name) for found in template.find_all(nodes.FromImport) for name in found.names}
    return imported | {macro.name for macro in template.find_all(nodes.Macro)}


def test_every_value_is_read() -> None:
    loader = environment().loader
    assert loader is not None
    parsed = (environment().parse(loader.get_source(environment(), name)[0]) for name in NAMES if "/" not in name)
    read = {node.name for template in parsed for node in template.find_all(nodes.Name) if node.ctx == "load"}
    assert {field.name for field in dataclasses.fields(Values)} - read == set()


def test_an_undefined_name_fails(tmp_path: Path) -> None:
    with pytest.raises(jinja2.UndefinedError, match="'name' is undefined"):
        fill("serve-config.yaml.j2", {})


def test_compiled_templates_are_kept_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    environment.cache_clear()
    environment().get_template("rayservice.yaml.j2")
    kept = list((tmp_path / "rayllm-ctl" / "templates").iterdir())
    assert kept
    for file in kept:
        file.write_bytes(b"damaged")
    environment.cache_clear()
    assert environment().get_template("rayservice.yaml.j2") is not None
    assert all(file.read_bytes() != b"damaged" for file in kept)
    environment.cache_clear()


def test_no_home_directory_is_made_for_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    environment.cache_clear()
    try:
        assert environment().get_template("rayservice.yaml.j2") is not None
        assert list(tmp_path.iterdir()) == []
    finally:
        environment.cache_clear()


@pytest.mark.parametrize("place", ["file", "read-only"])
def test_no_cache_no_matter(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked if place == "file" else "/proc"))
    environment.cache_clear()
    try:
        assert environment().bytecode_cache is None
        assert environment().get_template("rayservice.yaml.j2") is not None
    finally:
        environment.cache_clear()
