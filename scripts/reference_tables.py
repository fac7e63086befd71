"""Write the tables of exit codes and metrics in docs/reference; with --check only say whether they are current."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from rayllm_ctl.controller.loop.metrics import Metrics
from rayllm_ctl.errors import EXIT_CODES
from rayllm_ctl.serving.gateway import telemetry
from rayllm_ctl.serving.gateway.limits import limiter
from rayllm_ctl.serving.gateway.steps import Metric

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
_OBJECT = {"kind": "LLMService"}


def exit_codes() -> Iterator[str]:
    yield "| code | meaning |"
    yield "|---|---|"
    for code, meaning in EXIT_CODES.items():
        yield f"| {code} | {meaning} |"


def gateway_metrics() -> Iterator[str]:
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for found in sorted(_declared(), key=lambda metric: metric.name):
        labels = ", ".join(f"`{label}`" for label in found.labels)
        kind = "histogram" if found.boundaries else "counter"
        yield f"| `ray_{found.name}` | {kind} | {labels} | {found.description} |"


def _declared() -> list[Metric]:
    values = [value for module in (telemetry, limiter) for value in vars(module).values()]
    return [value for value in values if isinstance(value, Metric)]


def controller_metrics() -> Iterator[str]:
    """As a scrape shows them."""
    text = Metrics().text(depth=0, failing=0, leading=True, objects=[_OBJECT])
    yield "| metric | kind | labels | meaning |"
    yield "|---|---|---|---|"
    for name, description, kind, samples in re.findall(
        r"^# HELP (\S+) (.*)\n# TYPE \S+ (\w+)\n((?:[^#].*\n)*)", text, re.M
    ):
        labels = dict.fromkeys(label for label in re.findall(r'(\w+)="', samples) if label != "le")
        yield f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {description} |"


TABLES = {
    "exit-codes.md": {"exit codes": exit_codes},
    "metrics.md": {"gateway": gateway_metrics, "controller": controller_metrics},
}


def main() -> int:
    """0 when the files are (now) current, 1 when --check finds that one is not."""
    for name, tables in TABLES.items():
        before = (REFERENCE / name).read_text(encoding="utf-8")
        text = before
        for title, rows in tables.items():
            begin, end = f"<!-- {title}: made by `make docs` -->\n\n", "<!-- /table -->"
            head, _, rest = text.partition(begin)
            table = "\n".join(rows())
            text = f"{head}{begin}{table}\n\n{end}{rest.partition(end)[2]}"
        if "--check" not in sys.argv[1:]:
            (REFERENCE / name).write_text(text, encoding="utf-8")
        elif text != before:
            sys.stderr.write(f"{name} is not what the code says\n\nhint: make docs\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
