from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.serving.batch.failures import BatchError
from rayllm_ctl.serving.batch.settings import parse

GOOD: dict[str, Any] = {
    "name": "job",
    "input": {"format": "jsonl", "paths": ["s3://b/*.jsonl"]},
    "output": {"path": "/out"},
    "prompt": {"template": "{{ text }}"},
    "engine": {"model": "m", "concurrency": [1, 4]},
}


def test_absent_keys_have_defaults() -> None:
    settings = parse(GOOD)
    assert settings.input.paths == ("s3://b/*.jsonl",)
    assert settings.engine.concurrency == (1, 4)
    assert (settings.output.format, settings.job.partRows, settings.chat) == ("parquet", 1000, True)


def test_embeddings_need_no_chat_template() -> None:
    assert not parse({**GOOD, "task": "embed"}).chat


@pytest.mark.parametrize(
    ("section", "changes", "words"),
    [
        ("input", {"pathes": []}, "input: has no key 'pathes'"),
        ("input", {"paths": []}, "needs either paths or prompts"),
        ("input", {"format": "xml"}, "'xml' is none of text, jsonl"),
        ("input", {"types": {"a": "int"}}, "input.types: are for CSV"),
        ("output", {"format": "openai"}, "openai needs input of that format"),
        ("output", {"columns": {"answer": "error"}}, "gives a name twice"),
        ("output", {"columns": {"text": "x"}}, "renames answer, finish_reason"),
        ("prompt", {"column": "text"}, "template and column, of which only one"),
        ("prompt", {"template": None}, "needs a template, a column or messages"),
        ("prompt", {"chat": False, "system": "s"}, "is needed for messages"),
        ("engine", {"concurrency": [4, 1]}, "has to be [least, most]"),
        ("engine", {"batchSize": "64"}, "engine.batchSize: has to be a whole number, not '64'"),
        ("engine", {"model": None}, "engine.model: has to be a string"),
    ],
)
def test_what_is_wrong_is_named(section: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BatchError) as caught:
        parse({**GOOD, section: {**GOOD[section], **changes}})
    assert words in caught.value.message
    assert caught.value.exit_code == 2


def test_a_section_that_has_to_be_there_is_named() -> None:
    with pytest.raises(BatchError, match="output"):
        parse({name: value for name, value in GOOD.items() if name != "output"})
