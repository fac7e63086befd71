"""Input that is rejected before a GPU is requested, each with its code and a message that says where."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving.batch.conftest import Rig


def openai_line(custom_id: str, **body: Any) -> str:
    import json

    return json.dumps({"custom_id": custom_id, "url": "/v1/chat/completions", "body": {"model": "m", **body}}) + "\n"


ASK = {"messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize(
    ("given", "to", "files", "sections", "code", "words"),
    [
        ("jsonl", "jsonl", {"a": '{"text": "x"}\n\n{"text": \n'}, {}, "WrongFormat", "a, line 3: is not valid JSON"),
        ("jsonl", "jsonl", {"a": "[1]\n"}, {}, "WrongFormat", "line 1: is not a JSON object"),
        ("jsonl", "jsonl", {"a": '{"text": "\\ud83d"}\n'}, {}, "WrongFormat", "surrogate pair"),
        ("text", "jsonl", {"a": b"ok\n\xff\n"}, {}, "WrongFormat", "line 2: is not UTF-8"),
        ("text", "jsonl", {"a.gz": "x"}, {}, "WrongFormat", "is compressed"),
        ("text", "jsonl", {"a": "\n  \n"}, {}, "NoRows", "no rows"),
        ("csv", "jsonl", {"a": "text,b\nx\n"}, {}, "WrongFormat", "line 2: has 1 fields, and the header has 2"),
        ("csv", "jsonl", {"a": "text,text\nx,y\n"}, {}, "WrongFormat", "has the column 'text' twice"),
        (
            "csv",
            "jsonl",
            {"a": "text\nx\n"},
            {"input": {"types": {"text": "int"}}},
            "WrongFormat",
            "not of the type int",
        ),
        ("parquet", "jsonl", {"a": "no parquet at all"}, {}, "WrongFormat", "is not Parquet"),
        ("csv", "jsonl", {"a": "title,n\nx,1\n"}, {}, "MissingColumn", "lacks the column text; it has n, title"),
        ("jsonl", "jsonl", {"a": '{"txt": "x"}\n'}, {}, "MissingColumn", "lacks the column text; it has txt"),
        (
            "jsonl",
            "jsonl",
            {"a": '{"text": "x"}\n'},
            {"samplingColumns": {"temperature": "heat"}},
            "MissingColumn",
            "lacks the column heat",
        ),
        ("csv", "jsonl", {"a": "text,answer\nx,1\n"}, {}, "ColumnClash", "has a column answer, which the output adds"),
        (
            "jsonl",
            "jsonl",
            {"a": '{"text": "x"}\n' * 150 + '{"text": "x", "error": 1}\n'},
            {},
            "ColumnClash",
            "line 151 has a column error",
        ),
        ("text", "jsonl", {"a": "x\n"}, {"prompt": {"template": "{{ text"}}, "BadTemplate", "prompt.template, line 1"),
        ("text", "jsonl", {"a": "x\n"}, {"prompt": {"template": "{{ text + 1 }}"}}, "BadTemplate", "first rows"),
        (
            "text",
            "jsonl",
            {"a": "x\n"},
            {"prompt": {"template": "{{ text.__class__.mro() }}"}},
            "BadTemplate",
            "unsafe",
        ),
        (
            "csv",
            "jsonl",
            {"a": "k,text\n1,x\n2,x\n", "b": "k,text\n1,x\n"},
            {"input": {"keyColumn": "k"}},
            "DuplicateKey",
            "k '1' is in",
        ),
        (
            "openai",
            "openai",
            {"a": openai_line("one", **ASK) + openai_line("two", **ASK) + openai_line("one", **ASK)},
            {},
            "DuplicateKey",
            "a:1 and in",
        ),
        ("openai", "openai", {"a": openai_line("", **ASK)}, {}, "WrongFormat", "line 1: has no custom_id"),
        (
            "openai",
            "openai",
            {"a": openai_line("one", **{**ASK, "model": "other"})},
            {},
            "WrongFormat",
            "body.model is 'other'",
        ),
        (
            "openai",
            "openai",
            {"a": openai_line("1", **ASK, tools=[])},
            {},
            "WrongFormat",
            "body.tools is not supported",
        ),
        (
            "jsonl",
            "parquet",
            {"a": '{"text": "x", "n": 1}\n' * 1200 + '{"text": "x", "n": "one"}\n'},
            {},
            "MixedTypes",
            "column n of",
        ),
        ("text", "jsonl", {"a": "x\n"}, {"sampling": {"n": 2}}, "InvalidSpec", "sampling.n is not supported"),
    ],
)
def test_rejected(
    rig: Rig, given: str, to: str, files: dict[str, str], sections: dict[str, Any], code: str, words: str
) -> None:
    for name, content in files.items():
        rig.write(name, content)
    failed = rig.failure(rig.settings(given, to, **sections))
    assert failed["code"] == code, failed
    assert words in failed["message"]
    assert failed["hint"]


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("nothing", "InputMissing", "nothing was not found"),
        ("*.csv", "InputMissing", "no file matches"),
        ("", "InvalidSpec", "is inside the input folder"),
    ],
)
def test_paths_without_files(rig: Rig, path: str, code: str, words: str) -> None:
    rig.write("a.txt", "x\n")
    settings = rig.settings("text", "jsonl", input={"paths": [str(rig.root / path).rstrip("/")]})
    failed = rig.failure(settings)
    assert failed["code"] == code
    assert words in failed["message"]


def test_storage_errors_have_codes() -> None:
    from rayllm_ctl.serving.batch.failures import of_storage

    denied = OSError("When listing objects: AWS Error ACCESS_DENIED during ListObjectsV2 operation: Access Denied")
    missing = OSError("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: The specified bucket does not exist")
    found = [of_storage(error, "s3://b").code for error in (denied, missing, OSError(28, "No space left on device"))]
    assert found == ["AccessDenied", "InputMissing", "DiskFull"]


def test_openai_lines_that_are_read_as_jsonl_are_recognised(rig: Rig) -> None:
    rig.write("a.jsonl", openai_line("one", **ASK))
    failed = rig.failure(rig.settings("jsonl", "jsonl"))
    assert (failed["code"], failed["hint"][:21]) == ("MissingColumn", "--input-format openai")
