"""What a release leaves to do by hand: rules to read again, rows that are missing, lines for tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from rayllm_ctl.catalog.engines import engine_versions
from rayllm_ctl.catalog.releases import RELEASES
from scripts.knowledge import left
from scripts.knowledge.wheels import pinned
from scripts.manifest_schemas import KUBERAY

NEWEST = engine_versions()[-1]


def packages(folder: Path, file: str, before: str, after: str) -> dict[str, Path]:
    """Two releases of vLLM, each with one file of a rule."""
    for version, text in (("before", before), ("after", after)):
        path = folder / version / "vllm" / file
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return {NEWEST: folder / "after"}


@pytest.mark.parametrize(
    ("file", "after", "expected"),
    [
        ("rotary_embedding/mrope.py", "a = 1\n", []),
        ("rotary_embedding/mrope.py", "a = 2\n", ["ROPE_OF_SECTIONS_IS_LONG"]),
        ("fused_moe/oracle/fp8.py", "a = 2\ndef refine_fp8_moe_block_shape(): return 1\n", []),
        (
            "fused_moe/oracle/fp8.py",
            "a = 1\ndef refine_fp8_moe_block_shape(): return 2\n",
            ["EXPERT_BLOCKS_ARE_REFINED"],
        ),
    ],
    ids=["same", "another file", "another function", "the function that the source names"],
)
def test_a_rule_whose_source_changed_is_to_be_read_again(
    file: str, after: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = "a = 1\ndef refine_fp8_moe_block_shape(): return 1\n" if "oracle" in file else "a = 1\n"
    folders = packages(tmp_path, file, before, after)
    monkeypatch.setattr(left, "package_sources", lambda _, version: folders.get(version, tmp_path / "before"))
    found = [line for line in left.to_do(NEWEST, None, None) if line.startswith(file)]
    assert [line.rpartition("vllm_rules.")[2] for line in found] == expected


def test_every_rule_names_a_file_or_other_evidence() -> None:
    named = {name for name, rule in left.rules().items() if left.files_of(rule)}
    assert len(named) > 0.8 * len(left.rules())


def test_a_release_of_ray_is_a_line_with_the_vllm_that_it_requires(monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["click>=7", 'vllm[audio]==0.30.0; extra == "llm"', "aiohttp"]
    monkeypatch.setattr(left, "requirements", lambda *_: required)
    (line, tests) = [line for line in left.to_do(None, "9.9.0", None) if "9.9.0" in line]
    assert 'Release("9.9.0", "0.30.0", verified=False)' in line
    assert "pytest tests/contract" in tests


def test_releases_that_are_there_leave_nothing() -> None:
    ray, kuberay = RELEASES[-1].ray, list(KUBERAY.values())[-1]
    assert [line for line in left.to_do(None, ray, kuberay) if "architectures" not in line] == []
    assert any('KUBERAY["9.9"] = "v9.9.1"' in line for line in left.to_do(None, None, "9.9.1"))


def test_every_release_of_the_catalog_is_pinned() -> None:
    """A clean clone reads the same files."""
    found = {(package, version.partition(".post")[0]) for package, version in pinned()}
    assert {("vllm", version) for version in engine_versions()} <= found
    assert {("ray", release.ray) for release in RELEASES} <= found
