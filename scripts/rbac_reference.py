"""Write docs/reference/rbac.md from the rights that the code declares; with --check only say whether it is current."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from rayllm_ctl.model.workload import Right, Rights
from rayllm_ctl.workflows.setup.rbac import COMMANDS, ROLES, rules

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "rbac.md"

INTRODUCTION = """# Rights that commands need

Made from the code by `make docs`. `rayllm-ctl rbac --for COMMAND` prints the Role, and with `--user`, `--group` or
`--service-account` its binding:

<!-- not run: it grants rights -->
```sh
rayllm-ctl rbac --for viewer -n llm --group data-science | kubectl apply -f -
```

A command that lacks a right it needs fails with exit code 5 and names the right and the user before it writes anything.
The rights in the last column only show or explain more; `--needed-only` leaves them out. "everywhere" marks what
`rbac` grants with a ClusterRole, since a Role reaches no further than its namespace. The rights of `deploy` and `bench
sweep` are for all that a spec can contain: an object that a spec does not have needs none. A gateway with a Redis of
its own also needs the rights of `keys`, for the password.

`check -f` looks at Secrets and other objects that pods name, and at the admission of pods, if the user may get the ones
and create the others; no role here grants that.

Ray's dashboard asks for the token in a Secret of the RayCluster. `status`, `watch` and `wait` read Serve's state there
with the right to get Secrets, which `ci` and `operator` grant and `viewer` does not: with the token one can run code in
the pods. Without it they go by the status that KubeRay writes, and say that replicas were not verified.

Not listed: `render`, `plan`, `init`, `models`, `gpus`, `explain`, `image`, `completion`, `rbac` and `bench --url` ask
the API server nothing.
"""


def reference() -> str:
    """The whole page as Markdown."""
    lines = [INTRODUCTION, "| role | commands |", "|---|---|"]
    lines += [f"| `{name}` | {', '.join(f'`{one}`' for one in commands)} |" for name, commands in ROLES.items()]
    lines += ["", "| command | needs | shows more with |", "|---|---|---|"]
    alike: dict[Rights, list[str]] = {}
    for name, rights in COMMANDS.items():
        alike.setdefault(rights, []).append(f"`{name}`")
    for rights, names in alike.items():
        lines.append(f"| {', '.join(names)} | {_cell(rights.needed)} | {_cell(rights.display)} |")
    return "\n".join(lines) + "\n"


def _cell(rights: Iterable[Right]) -> str:
    near = [right for right in rights if not right.everywhere]
    wide = [right for right in rights if right.everywhere]
    parts = [f"{', '.join(rule['verbs'])}: {_resources(rule)}" for rule in rules(near)]
    parts += [f"everywhere {', '.join(rule['verbs'])}: {_resources(rule)}" for rule in rules(wide)]
    return "<br>".join(parts)


def _resources(rule: dict[str, list[str]]) -> str:
    (group,) = rule["apiGroups"]
    return ", ".join(f"`{name}{f'.{group}' if group else ''}`" for name in rule["resources"])


def main() -> int:
    """0 when the file is (now) current, 1 when --check finds that it is not."""
    text = reference()
    if "--check" in sys.argv[1:]:
        if TARGET.read_text(encoding="utf-8") == text:
            return 0
        sys.stderr.write(f"{TARGET.name} is not what the code says\n\nhint: make docs\n")
        return 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
