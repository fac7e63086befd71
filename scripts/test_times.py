"""Write how long each file of end-to-end tests takes into docs/contributing/testing.md, from the JUnit files of a run.

    python scripts/test_times.py build/junit-e2e.xml build/junit-slow.xml ...

The seconds of a file are the sum over its tests, their set-up included. Two processes share them.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

PAGE = Path(__file__).parents[1] / "docs" / "contributing" / "testing.md"
ROW = re.compile(r"^(\| .* \| `(\w+)\.py` \| [a-z, ]+ \|) [0-9 +]*\|$", re.M)


def seconds(junit: Path) -> Counter[str]:
    """The seconds of each file, by the name of its module."""
    found = Counter[str]()
    for case in ElementTree.parse(junit).iter("testcase"):  # noqa: S314 - a file that pytest has written
        found[case.attrib["classname"].rpartition(".")[2]] += round(float(case.attrib["time"]))
    return found


def main() -> None:
    """Rewrite the rows of the files that the runs have."""
    runs = [seconds(Path(name)) for name in sys.argv[1:]]
    page = PAGE.read_text(encoding="utf-8")

    def row(match: re.Match[str]) -> str:
        known = [str(run[match[2]]) for run in runs if match[2] in run]
        return f"{match[1]} {' + '.join(known)} |" if known else match[0]

    PAGE.write_text(ROW.sub(row, page), encoding="utf-8")


if __name__ == "__main__":
    main()
