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

A command without a required right exits with 5, before it writes anything, and names the right and the user. Rights
in the last column only add output; `--needed-only` omits them. "everywhere" marks rights that require a ClusterRole.
The rights of `deploy` and `bench sweep` are for everything that a spec can contain; objects that a spec does not have
need none. A gateway with a managed Redis also needs the rights of `keys`, for the password.

`check -f` also checks the Secrets and other objects that pods name, and the admission of pods, if the user may get
the former and create the latter; no role here grants that.

`status`, `watch` and `wait` read Serve's state from Ray's dashboard with the token in a Secret of the RayCluster.
`ci` and `operator` grant the right to get Secrets; `viewer` does not, since the token permits running code in the
pods. Without it they use the status written by KubeRay, and report that replicas were not verified.

Not listed, since they do not contact the API server: `render`, `plan`, `init`, `models`, `gpus`, `explain`, `image`,
`completion`, `rbac` and `bench --url`.
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
