"""Words that docs/contributing/style.md replaces are in no help text, message, docstring, comment or page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "style.md"),
    *(file for ending in ("py", "j2") for file in sorted((ROOT / "rayllm_ctl").rglob(f"*.{ending}"))),
]

PATTERNS = {
    "again": r"\banew\b",
    "continue, keep": r"\b[Gg]o(es)? on\b(?! the\b)",
    "for this long": r"\bso long\b(?! as\b)",
    "capacity, does not fit": r"\b(no (place|room)|(have|has) room)\b",
    "is not a": r"(?<![Hh]ere )\b(is|are) no (?!(longer|such|more|less|different|other)\b)[a-z]",
    "show, report, check": r"\bSay (what|how|which|on which|why|whether)\b",
    "if": r"\b(\w*Error|None|[Ee]mpty|[Nn]othing) where\b",
    "a noun: running services, the cause, the difference": r"\bwhat (runs|comes of|came of|becomes of|became of)\b",
    "a running service": r"\b(service|RayCluster|cluster|replica|pod)s? that runs?\b(?! \w)|\bone that runs\b",
    "fits": r"\b(has|have|gets?|got) (a|its|their) place\b",
    "repeatedly, forever": r"\bagain and again\b|\bfor ever\b(?! \w)",
}
"""What to write, and what is found instead. There is no exception: each of them is wrong wherever it is."""


@pytest.mark.parametrize("write", PATTERNS)
def test_texts_have_no_word_that_the_style_replaces(write: str) -> None:
    pattern = re.compile(PATTERNS[write])
    assert len(TEXTS) > 500
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in TEXTS
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_the_style_lists_every_pattern() -> None:
    page = (ROOT / "docs/contributing/style.md").read_text(encoding="utf-8")
    table = page.partition("| write | instead of |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| ([^|]+?) \|", table, re.M)
    assert set(PATTERNS) <= set(listed)
