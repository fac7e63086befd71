"""The rules that depend on vLLM's release stand in one place, each with its source."""

from __future__ import annotations

import re
from pathlib import Path

from rayllm_ctl.catalog.engines import engine_versions
from rayllm_ctl.planner import vllm_rules
from rayllm_ctl.planner.vllm_rules import VersionRule

PLANNER = Path(vllm_rules.__file__).parent
RULES = {name: rule for name, rule in vars(vllm_rules).items() if isinstance(rule, VersionRule)}
KNOWN = sorted(tuple(int(part) for part in version.split(".")[:3]) for version in engine_versions())

_LITERAL = re.compile(r"\(0, \d+, \d+\)")
_ELSEWHERE = {"vllm_rules.py", "evidence.py", "encoders.py"}
"""The rules, which releases logs were measured in, and which classes a release added."""


def test_a_rule_holds_from_its_first_release_to_the_one_that_ended_it() -> None:
    rule = VersionRule((0, 13, 0), "a file", until=(0, 16, 0))
    assert [rule.holds((0, minor, 1)) for minor in (12, 13, 15, 16)] == [False, True, True, False]
    assert VersionRule((0, 13, 0), "a file").holds((1, 0, 0))


def test_a_rule_names_its_source_and_a_release_that_the_catalog_has() -> None:
    minors = {release[:2] for release in KNOWN}
    for name, rule in RULES.items():
        ends = [release for release in (rule.since, rule.until) if release not in ((0, 0, 0), None)]
        assert ends, f"{name} always holds"
        assert all(release[:2] in minors for release in ends), name
        assert rule.until is None or rule.since < rule.until, name
        assert re.search(r"\.py|#\d+|logs? of|workers|mla|triton_kernels|oracle", rule.source), f"{name}: {rule.source}"


def test_every_rule_is_looked_up() -> None:
    code = "\n".join(file.read_text(encoding="utf-8") for file in PLANNER.rglob("*.py") if file.name != "vllm_rules.py")
    assert {name for name in RULES if f"vllm_rules.{name}" not in code} == set()


def test_no_other_module_of_the_planner_states_a_release_of_vllm() -> None:
    found = {
        f"{file.relative_to(PLANNER)}: {literal}"
        for file in PLANNER.rglob("*.py")
        if file.name not in _ELSEWHERE
        for literal in _LITERAL.findall(file.read_text(encoding="utf-8"))
    }
    assert found == set()
