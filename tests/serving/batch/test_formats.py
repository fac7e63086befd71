"""What rows of each format become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.serving.batch.conftest import Rig


def asks(rig: Rig) -> list[Any]:
    return [json.loads(row["answer"])["messages"] if row["answer"] else row["error"] for row in rig.rows()]


def test_text_rows_are_the_lines_that_are_not_empty(rig: Rig) -> None:
    rig.write("a.txt", "\ufefffirst\r\n\n \nlast")
    assert rig.run(rig.settings("text", "jsonl"))[0] == 0
    assert [(row["text"], row["row_id"]) for row in rig.rows()] == [("first", "a.txt:1"), ("last", "a.txt:4")]


def test_kept_empty_lines_are_error_rows(rig: Rig) -> None:
    rig.write("a.txt", "first\n\nlast\n")
    assert rig.run(rig.settings("text", "jsonl", input={"keepEmptyLines": True}, job={"partRows": 1}))[0] == 1
    assert [row["error"] for row in rig.rows()] == [None, "the prompt is empty", None]


def test_csv_columns_are_text_and_rows_may_have_line_breaks(rig: Rig) -> None:
    rig.write("a.csv", 'code,note,text\n0007,NA,"one\ntwo"\n1,,"three ""3"""\n\n2,x,four\n')
    settings = rig.settings("csv", "parquet", job={"partRows": 1}, prompt={"template": "{{ text }}", "chat": False})
    assert rig.run(settings)[0] == 0
    rows = rig.table().to_pylist()
    assert [(row["code"], row["note"], row["answer"]) for row in rows] == [
        ("0007", "NA", "one\ntwo"),
        ("1", "", 'three "3"'),
        ("2", "x", "four"),
    ]
    assert [row["row_id"] for row in rows] == ["a.csv:0", "a.csv:1", "a.csv:2"]


def test_csv_types_on_request(rig: Rig) -> None:
    rig.write("a.csv", "n,ok,text\n1,true,x\n,0,y\n")
    rig.run(rig.settings("csv", "parquet", input={"types": {"n": "int", "ok": "bool"}}))
    table = rig.table()
    assert table.column("n").to_pylist() == [1, None]
    assert table.column("ok").to_pylist() == [True, False]
    assert str(table.schema.field("n").type) == "int64"


def test_a_malformed_line_after_the_first_rows_is_an_error_row(rig: Rig) -> None:
    for given, good, bad in (("jsonl", '{"text": "x"}\n', "{oops\n"), ("csv", "x,y\n", "x\n")):
        rig.write(f"{given}/a", ("text,b\n" if given == "csv" else "") + good * 120 + bad + good)
        out = str(rig.root / "out")
        settings = rig.settings(given, "jsonl", input={"paths": [str(rig.root / "in" / given)]})
        assert rig.run({**settings, "output": {"path": f"{out}/{given}", "format": "jsonl"}})[0] == 1
        rows = [json.loads(line) for line in (rig.root / f"out/{given}/part-00000-000000.jsonl").open()]
        assert len(rows) == 122
        assert [i for i, row in enumerate(rows) if row["error"]] == [120]
        assert rows[120]["error"].startswith("malformed row: ")


def test_a_column_of_mixed_types_is_kept_in_jsonl(rig: Rig) -> None:
    rig.write("a.jsonl", '{"text": "x", "n": 1}\n{"text": null, "n": "one"}\n{"text": "y", "n": NaN}\n')
    settings = rig.settings("jsonl", "jsonl")
    settings["prompt"] = {"column": "text"}
    assert rig.run(settings)[0] == 1
    assert [row["n"] for row in rig.rows()] == [1, "one", None]
    assert [row["error"] for row in rig.rows()] == [None, "the prompt is empty", None]


def test_json_columns_have_one_type_in_all_parts(rig: Rig) -> None:
    rig.write("a.jsonl", '{"text": "x", "n": 1, "o": {"a": []}}\n{"text": "y", "n": 1.5, "o": {"a": [1], "b": 2}}\n')
    rig.run(rig.settings("jsonl", "parquet", job={"partRows": 1}))
    assert rig.table().column("n").to_pylist() == [1.0, 1.5]
    assert rig.table().column("o").to_pylist() == [{"a": [], "b": None}, {"a": [1], "b": 2}]


def parquet(rig: Rig) -> Any:
    import datetime
    import decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "text": ["a", "b", "c"],
            "when": pa.array([datetime.datetime(2024, 5, 6, 7, 8, 9)] * 3, pa.timestamp("ms")),
            "price": pa.array([decimal.Decimal("1.20")] * 3, pa.decimal128(5, 2)),
            "blob": [b"\x00\xff", None, b""],
            "score": pa.array([float("nan"), 1.0, float("inf")], pa.float32()),
            "kind": pa.array(["x", "y", "x"]).dictionary_encode(),
            "small": pa.array([1, 2, 3], pa.int8()),
        }
    )
    (rig.root / "in").mkdir()
    pq.write_table(table, rig.root / "in/a.parquet", row_group_size=2)
    return table


def test_parquet_keeps_its_types(rig: Rig) -> None:
    import pyarrow as pa

    table = parquet(rig)
    assert rig.run(rig.settings("parquet", "parquet", job={"partRows": 2}))[0] == 0
    found = rig.table()
    for field in table.schema:
        if field.name not in ("kind", "score"):
            assert found.schema.field(field.name).type == field.type
            assert found.column(field.name).to_pylist() == table.column(field.name).to_pylist()
    assert found.column("kind").to_pylist() == ["x", "y", "x"]
    assert found.schema.field("prompt_tokens").type == pa.int64()
    assert found.column("row_id").to_pylist() == ["a.parquet:0", "a.parquet:1", "a.parquet:2"]


def test_parquet_as_json(rig: Rig) -> None:
    parquet(rig)
    assert rig.run(rig.settings("parquet", "jsonl", input={"keyColumn": "text"}))[0] == 0
    first, second, third = rig.rows()
    assert first.items() >= {"when": "2024-05-06T07:08:09", "price": "1.20", "blob": "AP8=", "row_id": "a"}.items()
    assert [row["score"] for row in (first, second, third)] == [None, 1.0, None]
    assert second["blob"] is None


def test_openai_files_become_openai_files(rig: Rig) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
    late = {"custom_id": "late", "body": {**body, "n": 3}}
    lines = [{"custom_id": f"c{i}", "url": "/v1/chat/completions", "body": body} for i in range(100)]
    rig.write("a.jsonl", "".join(json.dumps(line) + "\n" for line in [*lines, late]))
    assert rig.run(rig.settings("openai", "openai"))[0] == 1
    rows = rig.rows()
    answer = rows[0]["response"]["body"]
    assert [row["custom_id"] for row in rows] == [*(f"c{i}" for i in range(100)), "late"]
    assert rows[0]["response"]["status_code"] == 200
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    assert rows[100]["response"] is None
    assert rows[100]["error"]["message"] == "body.n is not supported in a batch job"


def test_globs_and_hidden_files(rig: Rig) -> None:
    for name in ("x/1.txt", "x/y/2.txt", "x/_tmp/3.txt", "x/.4.txt", "z/5.txt", "x/6.csv"):
        rig.write(name, f"{name}\n")
    rig.run(rig.settings("text", "jsonl", input={"paths": [str(rig.root / "in/x/**/*.txt")]}))
    assert [row["row_id"] for row in rig.rows()] == ["1.txt:1", "y/2.txt:1"]


def test_added_columns_can_be_renamed(rig: Rig) -> None:
    rig.write("a.csv", "text,answer\nx,42\n")
    assert rig.run(rig.settings("csv", "jsonl", output={"columns": {"answer": "summary"}}))[0] == 0
    assert rig.rows()[0]["answer"] == "42"
    assert "x" in rig.rows()[0]["summary"]


def test_system_messages_and_templates(rig: Rig) -> None:
    rig.write("a.jsonl", '{"text": null, "who": "Bob"}\n')
    rig.run(rig.settings("jsonl", "jsonl", prompt={"template": "Hi {{ who }}{{ text }}", "system": "Be {{ who }}."}))
    assert asks(rig) == [[{"role": "system", "content": "Be Bob."}, {"role": "user", "content": "Hi Bob"}]]


def test_a_column_may_have_messages(rig: Rig) -> None:
    messages = [{"role": "user", "content": "hi"}]
    rig.write("a.jsonl", json.dumps({"m": messages}) + "\n" + json.dumps({"m": 7}) + "\n")
    settings = rig.settings("jsonl", "jsonl")
    settings["prompt"] = {"column": "m"}
    rig.run(settings)
    assert asks(rig) == [messages, "column m is neither text nor a list of messages, each with role and content"]


@pytest.mark.parametrize("task", ["embed", "classify"])
def test_lists_of_numbers_are_answers(rig: Rig, task: str) -> None:
    import pyarrow as pa

    rig.write("1.jsonl", '{"text": "x"}\n{"text": ""}\n')
    settings = rig.settings("jsonl", "parquet", task=task, prompt={"template": "{{ text }}"}, job={"maxErrors": 1})
    assert rig.run(settings)[0] == 0
    table = rig.table()
    assert table.schema.field("answer").type == pa.list_(pa.float32())
    assert table.column("answer").to_pylist() == [[0.5, 2.0], None]
    assert rig.run({**settings, "output": {"format": "jsonl", "path": str(rig.root / "lines")}})[0] == 0
    lines = (rig.root / "lines/part-00000-000000.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"] for line in lines] == [[0.5, 2.0], None]
