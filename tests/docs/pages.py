"""The pages of the documentation and the fenced blocks in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
GENERATED = {ROOT / "docs/reference/cli.md"}
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "charts").rglob("README.md")),
    ROOT / "manifests/README.md",
]

FENCE = re.compile(r"(?:<!-- (?P<comment>[^\n]*) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


class Block(NamedTuple):
    """A fenced block and where it starts; `comment` is the HTML comment in the line above it."""

    page: Path
    line: int
    language: str
    text: str
    comment: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_run(self) -> bool:
        return self.language in {"sh", "console"} and not self.comment.startswith(("not run: ", "session: "))

    @property
    def file(self) -> str | None:
        """The name under which later blocks of the page find the text."""
        return self.comment.removeprefix("file: ") if self.comment.startswith("file: ") else None


def blocks() -> Iterator[Block]:
    for page in PAGES:
        if page in GENERATED:
            continue
        content = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(content):
            line = content.count("\n", 0, match.start("language")) + 1
            yield Block(page, line, match["language"], match["text"], match["comment"] or "")


BLOCKS = list(blocks())
