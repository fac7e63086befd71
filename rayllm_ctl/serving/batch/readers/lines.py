"""Text, JSONL and OpenAI batch files: one row per line. Places are line numbers from 1."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rayllm_ctl.serving.batch.parts import Source
from rayllm_ctl.serving.batch.readers.base import Record, RecordReader
from rayllm_ctl.serving.batch.storage import open_file

_BOM = b"\xef\xbb\xbf"


class _LineReader(RecordReader):
    keep_empty = False

    def records(self, source: Source, offset: int, first: int) -> Iterator[Record]:
        line = first if first > 0 else 1
        with open_file(source.path, self.settings.storage, offset) as file:
            for content in file:
                if self.keep_empty or content.strip():
                    yield Record(offset, line, line, content.removeprefix(_BOM) if offset == 0 else content)
                offset += len(content)
                line += 1


class TextReader(_LineReader):
    """Each line is a row with the column `text`. Empty lines are not rows, unless they are kept."""

    @property
    def keep_empty(self) -> bool:  # type: ignore[override]
        return self.settings.input.keepEmptyLines

    def columns(self, source: Source) -> list[str]:  # noqa: ARG002
        return ["text"]

    def parse(self, record: Record, columns: list[str] | None) -> dict[str, Any]:  # noqa: ARG002
        return {"text": decoded(record.content).rstrip("\r\n")}


class JsonReader(_LineReader):
    """Each line is a JSON object. Empty lines are not rows."""

    def columns(self, source: Source) -> None:  # noqa: ARG002
        return None

    def parse(self, record: Record, columns: list[str] | None) -> dict[str, Any]:  # noqa: ARG002
        return json_object(record.content)


class OpenAIReader(JsonReader):
    """Each line is a request of OpenAI's batch API."""

    def parse(self, record: Record, columns: list[str] | None) -> dict[str, Any]:
        row = super().parse(record, columns)
        if not isinstance(row.get("custom_id"), str) or not row["custom_id"]:
            raise ValueError("has no custom_id")
        if not isinstance(row.get("body"), dict):
            raise ValueError("has no body")
        return row


def json_object(content: bytes) -> dict[str, Any]:
    """A line of JSONL. ValueError if it is not an object, or has text that is not valid Unicode."""
    text = decoded(content)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not valid JSON: {error.msg} at character {error.colno}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("is not a JSON object")
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("has half of a surrogate pair, which is not valid Unicode") from None
    return value


def decoded(content: bytes) -> str:
    """Text in UTF-8. ValueError says which byte is not."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 at byte {error.start}") from None
