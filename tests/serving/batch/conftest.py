"""A driver without Ray: prompts are answered with themselves. pyarrow is imported when a test needs it."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

Events = list[dict[str, Any]]


@dataclass
class Rig:
    """A job's folders, and runs of its driver."""

    root: Path
    capsys: pytest.CaptureFixture[str]
    asked: list[int] = field(default_factory=list)
    """Parts that the last run asked the engine for."""
    stop_after: int | None = None
    """Rows after which the engine is lost."""
    seconds_per_row: float = 0.0
    """What an answer adds to the driver's clock, which stands still otherwise."""
    clock: list[float] = field(default_factory=lambda: [0.0])
    """The time, in its only item."""
    said: str = ""
    """What the last run wrote to standard error."""
    rows_asked: int = 0
    """Rows that the last run asked the engine for."""

    def write(self, name: str, content: str | bytes) -> Path:
        """A file of the input."""
        path = self.root / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def settings(self, given: str, to: str, **sections: Any) -> dict[str, Any]:
        """Settings of a job from and to a format."""
        base: dict[str, Any] = {
            "name": "job",
            "input": {"format": given, "paths": [str(self.root / "in")]},
            "output": {"format": to, "path": str(self.root / "out")},
            "engine": {"model": "m"},
        }
        if given in ("jsonl", "csv", "parquet"):
            base["prompt"] = {"template": "Say {{ text }}"}
        for name, section in sections.items():
            base[name] = {**base.get(name, {}), **section} if isinstance(section, dict) else section
        return base

    def run(self, settings: dict[str, Any]) -> tuple[int, Events]:
        """The exit code, and what the driver said."""
        from rayllm_ctl.serving.batch import driver

        path = self.root / "settings.json"
        path.write_text(json.dumps(settings))
        self.asked.clear()
        self.rows_asked = 0
        code = driver.main(str(path))
        out, self.said = self.capsys.readouterr()
        return code, [json.loads(line.removeprefix("rayllm-batch ")) for line in out.splitlines()]

    def failure(self, settings: dict[str, Any]) -> dict[str, Any]:
        """What the driver says of a job that is rejected before anything runs."""
        code, events = self.run(settings)
        assert (code, self.asked) == (2, [])
        return events[-1]

    def rows(self) -> list[dict[str, Any]]:
        """All rows of the JSONL output, in the order of the parts."""
        files = sorted(self.root.glob("out/part-*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def table(self) -> Any:
        """The Parquet output."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        return pa.concat_tables([pq.read_table(file) for file in sorted(self.root.glob("out/part-*.parquet"))])


@pytest.fixture
def rig(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Rig:
    made = Rig(tmp_path, capsys)
    fake: Any = ModuleType("rayllm_ctl.serving.batch.inference.pipeline")
    fake.answers = _answers(made)
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    import rayllm_ctl.serving.batch.inference as package

    monkeypatch.setattr(package, "pipeline", fake, raising=False)
    from rayllm_ctl.serving.batch import driver, journal

    monkeypatch.setattr(driver, "Journal", functools.partial(journal.Journal, clock=lambda: made.clock[0]))
    return made


def _answers(rig: Rig) -> Callable[[Any, Any, Any], Iterator[Any]]:
    def answers(settings: Any, parts: Any, known: Any) -> Iterator[Any]:
        from rayllm_ctl.serving.batch.inference import columns
        from rayllm_ctl.serving.batch.inference.prompts import Prompts
        from rayllm_ctl.serving.batch.parts import News
        from rayllm_ctl.serving.batch.readers import reader

        prompts, source = Prompts(settings), reader(settings)
        count = 0
        for number, part in parts:
            rig.asked.append(number)
            asks = {
                i: prompts.try_ask(row) for i, row in enumerate(source.read(part)) if i not in known.get(number, ())
            }
            rig.rows_asked += len(asks)
            table = columns.block(number, list(asks.values()), settings, lora=False, indexes=list(asks))
            for row in table.to_pylist():
                if rig.stop_after is not None and count >= rig.stop_after:
                    raise RuntimeError("the actor died: vLLM is gone")
                count += 1
                rig.clock[0] += rig.seconds_per_row
                content = row["prompt"] or row["messages"]
                made = {"generated_text": content} if settings.task == "generate" else {"embedding": [0.5, 2.0]}
                found = {**made, "finish_reason": "stop", "prompt_tokens": 2, "completion_tokens": 3}
                yield News([columns.answer({**dict.fromkeys(columns.RESULT), **row, **found})], 1)

    return answers
