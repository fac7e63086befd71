"""Write docs/reference/rbac.md from the rights that the code declares; with --check only say whether it is current."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from rayllm_ctl.model.kube.api_kinds import kind
from rayllm_ctl.model.workload import Right
from rayllm_ctl.workflows.setup.controller_rights import BESIDE
from rayllm_ctl.workflows.setup.rbac import COMMANDS, ROLES, rules

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "rbac.md"

INTRODUCTION = """# Rights that commands need

`rayllm-ctl rbac --for COMMAND` prints a Role, and with `--user`, `--group` or `--service-account` its binding:

<!-- not run: it grants rights -->
```sh
rayllm-ctl rbac --for viewer -n llm --group data-science | kubectl apply -f -
```

- A command without a required right exits with 5 before it writes anything, and names the right and the user.
- The Role also has rights that only add output, for example to list events, nodes and quotas, or in a ClusterRole the
  pods of other namespaces. `--needed-only` omits them, and leaves the rights of the table below.
- Objects that a spec does not have need no rights. A gateway with a managed Redis also needs those of `keys`.
- `check -f` also checks Secrets and the admission of pods, if you may get Secrets and create pods. No role grants that.
- If Ray requires a token, `status`, `watch` and `wait` read Serve's state only with the right to get Secrets. `ci` and
  `operator` grant it; `viewer` does not, since the token permits running code in the pods. Without it replicas are
  reported as not verified.

## Roles

| role | commands |
|---|---|"""

COMMANDS_TITLE = """
## Commands

| command | needs |
|---|---|"""


def reference() -> str:
    """The whole page as Markdown."""
    lines = [INTRODUCTION]
    lines += [f"| `{name}` | {_commands(commands)} |" for name, commands in ROLES.items()]
    lines += [COMMANDS_TITLE]
    alike: dict[tuple[Right, ...], list[str]] = {}
    for name, rights in COMMANDS.items():
        alike.setdefault(rights.needed, []).append(f"`{name}`")
    lines += [f"| {', '.join(names)} | {_cell(needed)} |" for needed, names in alike.items() if needed]
    lines += ["", "Names in italics stand for several kinds or rights:", "", "| name | contents |", "|---|---|"]
    lines += [f"| *{name}* | {', '.join(_resources(kinds))} |" for name, kinds in KINDS.items()]
    lines += [f"| *{name}* | {_cell(rights, without=name)} |" for name, rights in SETS.items()]
    free = ["render", "plan", "init", "models", "gpus", "explain", "image", "completion", "rbac", "bench --url"]
    free += [name for name, rights in COMMANDS.items() if not rights.needed]
    lines += ["", f"No rights are required by {', '.join(f'`{name}`' for name in free)}."]
    return "\n".join(lines) + "\n"


KINDS = {"objects of a spec": BESIDE, "Ray objects": ("RayCluster", "RayService")}
SETS = {"apply and follow": COMMANDS["deploy"].needed}
"""Rights that several commands have in common."""


def _commands(names: tuple[str, ...]) -> str:
    left = [f"`{name}`" for name in COMMANDS if name not in names]
    listed = ", ".join(f"`{name}`" for name in names)
    return listed if len(left) > 3 else f"all but {' and '.join(left)}"


def _cell(rights: Iterable[Right], *, without: str = "") -> str:
    """`without`: the set that the cell defines."""
    left = dict.fromkeys(rights)
    parts = []
    for name, members in SETS.items():
        if name != without and set(members) <= left.keys():
            parts.append(f"*{name}*")
            left = dict.fromkeys(right for right in left if right not in members)
    lines: dict[str, list[str]] = {}
    for name, kinds in KINDS.items():
        verbs = [verb for verb in sorted({right.verb for right in left}) if _of(kinds, verb) <= left.keys()]
        if verbs:
            lines[", ".join(verbs)] = [*lines.get(", ".join(verbs), ()), f"*{name}*"]
            replaced = set().union(*(_of(kinds, verb) for verb in verbs))
            left = dict.fromkeys(right for right in left if right not in replaced)
    for rule in rules(left):
        (group,) = rule["apiGroups"]
        names = lines.setdefault(", ".join(rule["verbs"]), [])
        names += [f"`{name}{f'.{group}' if group else ''}`" for name in rule["resources"]]
    parts += [f"{verbs}: {', '.join(names)}" for verbs, names in sorted(lines.items())]
    return "<br>".join(parts)


def _of(kinds: Iterable[str], verb: str) -> set[Right]:
    return {Right(verb, name) for name in kinds}


def _resources(kinds: Iterable[str]) -> Iterable[str]:
    for name in kinds:
        found = kind(name)
        yield f"`{found.plural}{f'.{found.group}' if found.group else ''}`"


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
