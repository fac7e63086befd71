"""What sets one YAML text apart from another, in a form that is short, easy to review and complete.

A difference is made of hunks like those of a unified diff. But a hunk names its place in the document instead of line
numbers, and has no lines of context, so it stays as it is when both texts change in the same way elsewhere:

    @@ RayService.spec.rayClusterConfig.headGroupSpec.template.spec.containers[ray-head].image
    -            image: rayproject/ray-llm:2.60.0
    +            image: registry.example/ray-llm:1
    @@ after RayService.spec.rayClusterConfig.workerGroupSpecs[gpu].template.spec.nodeSelector
    +          priorityClassName: serving

`...` after a removed line stands for the lines below it, all of which are removed.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

HUNK = re.compile(r"@@ (?:(?P<first>at the start)|(?P<where>after |first in |)(?P<path>.+))")
KIND = re.compile(r"^kind: (\S+)$", re.MULTILINE)
LINE = re.compile(r"(?P<indent> *)(?P<item>- )?(?P<text>.*)")
QUOTES = "\"'"
KEY = re.compile(r"""(?P<key>"[^"]*"|'[^']*'|[^\s"':][^:]*):(?: (?P<value>.+))?""")


class DoesNotApplyError(Exception):
    """The base has no such place, or other lines there."""


class Line(NamedTuple):
    path: str  # where it stands in the document; no two lines have the same
    text: str
    depth: int


def difference(base: str, text: str) -> str:
    """What makes `text` of `base`: see `patched`."""
    old, new = _lines(base), _lines(text)
    tokens = [[(line.path, line.text) for line in lines] for lines in (old, new)]
    hunks = []
    for tag, start, end, first, last in difflib.SequenceMatcher(None, *tokens, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        removed, added = _removed(old, start, end), [f"+{line.text}" for line in new[first:last]]
        if added and (not removed or new[first].depth > old[start].depth):
            # What is added ends the part before, and is no replacement for the part that is removed.
            hunks += [f"@@ {_gap(old, start, new[first].depth)}", *added]
            added = []
        if removed:
            hunks += [f"@@ {old[start].path}", *removed, *added]
    return "".join(f"{line}\n" for line in hunks)


def patched(base: str, changes: str) -> str:
    """`base` with these changes. Raises DoesNotApplyError where they were made for another base."""
    old = _lines(base)
    result, done = list[str](), 0
    for line in changes.split("\n")[:-1]:
        if hunk := HUNK.fullmatch(line):
            start = _start(old, hunk)
            result += [kept.text for kept in old[done:start]]
            done = start
        elif line.startswith("+"):
            result.append(line[1:])
        elif done < len(old) and line == f"-{old[done].text}":
            done += 1
        elif done < len(old) and line == f"-{old[done].text} ...":
            done = _end(old, done)
        else:
            raise DoesNotApplyError(line)
    _, *lines = [*result, *(kept.text for kept in old[done:])]
    return "".join(f"{line}\n" for line in lines)


def _removed(old: Sequence[Line], start: int, end: int) -> list[str]:
    printed = []
    while start < end:
        below = _end(old, start)
        whole = start + 1 < below <= end
        printed.append(f"-{old[start].text} ..." if whole else f"-{old[start].text}")
        start = below if whole else start + 1
    return printed


def _gap(old: Sequence[Line], index: int, depth: int) -> str:
    """The place before this line, where one of this depth is added."""
    for before in range(index - 1, -1, -1):
        if old[before].depth <= depth:
            if old[before].depth == depth and _end(old, before) == index:
                return f"after {old[before].path}"
            break
    return f"first in {old[index - 1].path}" if index else "at the start"


def _start(old: Sequence[Line], hunk: re.Match[str]) -> int:
    if hunk["first"]:
        return 0
    index = next((index for index, line in enumerate(old) if line.path == hunk["path"]), None)
    if index is None:
        raise DoesNotApplyError(hunk[0])
    return {"after ": _end(old, index), "first in ": index + 1, "": index}[hunk["where"]]


def _end(old: Sequence[Line], index: int) -> int:
    """The index after the last line below this one."""
    depth = old[index].depth
    return next((after for after in range(index + 1, len(old)) if old[after].depth <= depth), len(old))


def _lines(text: str) -> list[Line]:
    """The lines of a YAML text, with a separator before the first document as well."""
    seen = Counter[str]()
    lines = list[Line]()
    for document in re.split(r"^---\n", text, flags=re.MULTILINE):
        kind = KIND.search(document)
        above = list[Line]()
        for line in ["---", *document.split("\n")[:-1]]:
            label, depth = _label(line) if above else (kind[1] if kind else "document", -1)
            while above and above[-1].depth >= depth:
                above.pop()
            path = above[-1].path + label if above else label
            seen[path] += 1
            above.append(Line(path if seen[path] == 1 else f"{path}#{seen[path]}", line, depth))
            lines.append(above[-1])
    return lines


def _label(line: str) -> tuple[str, int]:
    """What it adds to the path of the line above, and its depth. An item stands deeper than the key of its list."""
    found = LINE.fullmatch(line)
    assert found is not None
    indent, key = len(found["indent"]) * 2, KEY.fullmatch(found["text"])
    if found["item"]:
        name = key["value"] or key["key"] if key else found["text"]
        return f"[{name.strip(QUOTES).partition(':')[0]}]", indent + 1
    if found["text"][:1] in ("}", "]"):
        return f".{found['text']}", indent + 1
    return f".{key['key'] if key else found['text']}", indent if found["text"] else len(line) + 10**6
