"""What sets one YAML text apart from another, in a form that is short, easy to review and complete.

A difference is made of hunks like those of a unified diff. But a hunk names its place in the document instead of line
numbers, and has no lines of context, so it stays as it is when both texts change in the same way elsewhere:

    @@ RayService.spec.rayClusterConfig.headGroupSpec.template.spec.containers[ray-head].image
    -            image: rayproject/ray-llm:2.60.0
    +            image: registry.example/ray-llm:1
    @@ after RayService.spec.rayClusterConfig.workerGroupSpecs[gpu].template.spec.nodeSelector
    +          priorityClassName: serving

`...` after a removed line stands for the lines below it, all of which are removed. A long item, such as a second worker
group, begins as a copy of another one of its list, which the hunks after it change:

    @@ after RayService.spec.rayClusterConfig.workerGroupSpecs[gpu], a copy of [gpu]
    +    - groupName: spot
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

HUNK = re.compile(
    r"@@ (?:(?P<first>at the start)|(?P<where>after |first in |)(?P<path>.+?)(?:, a copy of (?P<source>.+))?)"
)
KIND = re.compile(r"^kind: (\S+)$", re.MULTILINE)
LINE = re.compile(r"(?P<indent> *)(?P<item>- )?(?P<text>.*)")
QUOTES = "\"'"
KEY = re.compile(r"""(?P<key>"[^"]*"|'[^']*'|[^\s"':][^:]*):(?: (?P<value>.+))?""")


class DoesNotApplyError(Exception):
    """The base has no such place, or other lines there."""


class Line(NamedTuple):
    above: str  # the path of the line that it stands below
    path: str  # where it stands in the document; no two lines have the same
    text: str
    depth: int


def difference(base: str, text: str, *, copied: int = 20) -> str:
    """What makes `text` of `base`: see `patched`. copied: the fewest lines of an item that begins as a copy."""
    old, new = _lines(base), _lines(text)
    hunks = list[str]()
    for index in range(len(new)):
        if copy := _copy(old, new, index, copied):
            hunks += copy
            old = _with_copy(old, *copy)
    compared = difflib.SequenceMatcher(None, _tokens(old), _tokens(new), autojunk=False)
    for tag, start, end, first, last in compared.get_opcodes():
        if tag == "equal":
            continue
        removed, added = _removed(old, start, end), [f"+{line.text}" for line in new[first:last]]
        if added and (not removed or new[first].depth > old[start].depth):
            # What is added ends the part before, and is not a replacement for the part that is removed.
            hunks += [f"@@ {_gap(old, start, new[first].depth)}", *added]
            added = []
        if removed:
            hunks += [f"@@ {old[start].path}", *removed, *added]
    return "".join(f"{line}\n" for line in hunks)


def patched(base: str, changes: str) -> str:
    """`base` with these changes. Raises DoesNotApplyError where they were made for another base."""
    old, lines = _lines(base), changes.split("\n")[:-1]
    while lines and (hunk := HUNK.fullmatch(lines[0])) and hunk["source"]:
        old = _with_copy(old, *lines[:2])
        del lines[:2]
    result, done = list[str](), 0
    for line in lines:
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
    return _text([*result, *(kept.text for kept in old[done:])])


def _copy(old: Sequence[Line], new: Sequence[Line], index: int, shortest: int) -> tuple[str, str] | None:
    """The hunk and the first line of an item that is to begin as a copy of the one in `old` that is most like it."""
    line, end = new[index], _end(new, index)
    if not _is_item(line) or end - index < shortest or any(one.path == line.path for one in old):
        return None
    texts = {below.text for below in new[index:end]}
    siblings = {
        one.path: len(texts.intersection(below.text for below in old[start : _end(old, start)]))
        for start, one in enumerate(old)
        if _is_item(one) and one.above == line.above
    }
    if not siblings:
        return None
    source = max(siblings, key=lambda path: siblings[path])
    after = next((one.path for one in reversed(new[:index]) if one.path in siblings), source)
    return f"@@ after {after}, a copy of {source.removeprefix(line.above)}", f"+{line.text}"


def _is_item(line: Line) -> bool:
    return line.text.lstrip().startswith("- ")


def _with_copy(old: Sequence[Line], hunk: str, first: str) -> list[Line]:
    found = HUNK.fullmatch(hunk)
    assert found is not None
    start, source = _start(old, found), _index(old, old[_index(old, found["path"])].above + found["source"])
    texts = [line.text for line in old]
    texts[start:start] = [first[1:], *texts[source + 1 : _end(old, source)]]
    return _lines(_text(texts))


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
    index = _index(old, hunk["path"])
    return {"after ": _end(old, index), "first in ": index + 1, "": index}[hunk["where"]]


def _index(old: Sequence[Line], path: str) -> int:
    for index, line in enumerate(old):
        if line.path == path:
            return index
    raise DoesNotApplyError(path)


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
            parent = above[-1].path if above else ""
            path = parent + label
            seen[path] += 1
            above.append(Line(parent, path if seen[path] == 1 else f"{path}#{seen[path]}", line, depth))
            lines.append(above[-1])
    return lines


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines[1:])


def _tokens(lines: Sequence[Line]) -> list[tuple[str, str]]:
    return [(line.path, line.text) for line in lines]


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
