"""Prompts that are in the settings themselves. Places count from 1, as lines do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rayllm_ctl.serving.batch.parts import Source
from rayllm_ctl.serving.batch.readers.base import Record, RecordReader


class InlineReader(RecordReader):
    """A row with the column `text` for each prompt; a prompt may have several lines."""

    def columns(self, source: Source) -> list[str]:  # noqa: ARG002
        return ["text"]

    def records(self, source: Source, offset: int, first: int) -> Iterator[Record]:  # noqa: ARG002
        for index, prompt in enumerate(self.settings.input.prompts[offset:], start=offset):
            yield Record(index, index + 1, index + 1, prompt)

    def parse(self, record: Record, columns: list[str] | None) -> dict[str, Any]:  # noqa: ARG002
        return {"text": record.content}
