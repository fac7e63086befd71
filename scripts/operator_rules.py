"""Write the rules of the operator's chart from the rights that the code declares; --check only says whether they are
current."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rayllm_ctl.model.text.yaml_text import flow
from rayllm_ctl.model.workload import Right
from rayllm_ctl.workflows.setup.controller_rights import LEASE_RIGHTS, controller_rights
from rayllm_ctl.workflows.setup.rbac import is_wide, rules

TARGET = Path(__file__).resolve().parent.parent / "charts" / "rayllm-operator" / "templates" / "_rules.tpl"

HEADER = "{{- /* Made from the rights that the code declares by `make docs`. Do not edit. */}}\n"


def template() -> str:
    """Definitions of the rules for the Lease, for the namespaces of services, and for what no Role can grant."""
    rights = controller_rights()
    granted = (*rights.needed, *rights.display)
    parts = {
        "leaseRules": LEASE_RIGHTS.needed,
        "namespaceRules": [right for right in granted if not is_wide(right)],
        "clusterRules": [right for right in granted if is_wide(right)],
    }
    return HEADER + "".join(
        f'{{{{- define "rayllm-operator.{name}" }}}}\n{"".join(_lines(part))}{{{{- end }}}}\n'
        for name, part in parts.items()
    )


def _lines(rights: Iterable[Right]) -> Iterator[str]:
    for rule in rules(rights):
        yield from (f"{'- ' if not place else '  '}{key}: {flow(rule[key])}\n" for place, key in enumerate(rule))


def main() -> int:
    """0 when the file is (now) current, 1 when --check finds that it is not."""
    text = template()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != text:
        sys.stderr.write(f"{TARGET.name} is not what the code says\n\nhint: make docs\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
