from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.serving.batch.conftest import Rig

LINES = "".join(json.dumps({"id": i, "text": f"t{i}"}) + "\n" for i in range(250))


@pytest.mark.parametrize("to", ["jsonl", "parquet"])
def test_every_row_has_one_answer_in_its_place(rig: Rig, to: str) -> None:
    rig.write("a/1.jsonl", LINES)
    rig.write("b/1.jsonl", LINES)
    code, events = rig.run(rig.settings("jsonl", to, job={"partRows": 100}, prompt={"chat": False}))
    rows = rig.rows() if to == "jsonl" else rig.table().to_pylist()
    assert code == 0
    assert [row["id"] for row in rows] == [*range(250), *range(250)]
    assert all(row["answer"] == f"Say {row['text']}" for row in rows)
    assert rows[0]["row_id"] == "a/1.jsonl:1"
    assert rows[-1]["row_id"] == "b/1.jsonl:250"
    assert len(list(rig.root.glob("out/part-*"))) == 6
    expected = {"event": "result", "rows": 500, "answered": 500, "completionTokens": 1500, "maxErrors": 0}
    assert events[-1].items() >= expected.items()
    assert [event["phase"] for event in events[:-1]] == ["checking", "counting", "starting", "running", "running"]
    assert [event["done"] for event in events[:-1]] == [0, 0, 0, 0, 1]
    assert json.loads((rig.root / "out/_rayllm/result.json").read_text()) == events[-1]


@pytest.mark.parametrize("to", ["jsonl", "parquet"])
def test_a_second_run_does_only_what_is_missing(rig: Rig, to: str) -> None:
    rig.write("1.jsonl", LINES + '{"id": 250, "text": ""}\n')
    settings = rig.settings("jsonl", to, job={"partRows": 50}, prompt={"template": "{{ text }}"})
    rig.stop_after = 120
    code, events = rig.run(settings)
    assert (code, events[-1]["code"]) == (3, "EngineFailed")
    assert len(list(rig.root.glob("out/part-*"))) == 2
    written = {path: path.stat().st_mtime_ns for path in rig.root.glob("out/part-*")}
    rig.stop_after = None
    code, events = rig.run({**settings, "engine": {**settings["engine"], "kwargs": {"max_num_seqs": 8}}})
    assert (code, rig.asked) == (1, [2, 3, 4, 5])
    assert events[-1].items() >= {"rows": 251, "resumed": 100, "errors": 1, "completionTokens": 750}.items()
    assert events[-1]["firstErrors"] == [{"rowId": "1.jsonl:251", "error": "the prompt is empty"}]
    assert {path: path.stat().st_mtime_ns for path in written} == written
    code, events = rig.run(settings)
    assert (code, rig.asked, events[-1]["resumed"], events[-1]["errors"]) == (1, [], 251, 1)


def test_another_job_in_the_same_folder_is_rejected(rig: Rig) -> None:
    rig.write("1.jsonl", LINES)
    settings = rig.settings("jsonl", "jsonl")
    rig.run(settings)
    code, events = rig.run({**settings, "sampling": {"temperature": 0.0}})
    assert (code, rig.asked, events[-1]["code"]) == (2, [], "OutputNotEmpty")
    assert "differs in sampling" in events[-1]["message"]


def test_a_folder_with_other_files_is_rejected_and_an_empty_volume_is_not(rig: Rig) -> None:
    rig.write("1.txt", "hello\n")
    (rig.root / "out/lost+found").mkdir(parents=True)
    assert rig.run(rig.settings("text", "jsonl"))[0] == 0
    (rig.root / "other").mkdir()
    (rig.root / "other/thesis.tex").touch()
    failed = rig.failure(rig.settings("text", "jsonl", output={"path": str(rig.root / "other")}))
    assert failed["code"] == "OutputNotEmpty"
    assert "thesis.tex" in failed["message"]


def test_errors_up_to_the_limit_are_success(rig: Rig) -> None:
    prompts = {"input": {"format": "text", "prompts": ["one", " ", "two\nlines"]}}
    assert rig.run({**rig.settings("text", "jsonl"), **prompts, "job": {"maxErrors": 1}})[0] == 0
    assert [(row["row_id"], row["error"]) for row in rig.rows()] == [
        ("prompts:1", None),
        ("prompts:2", "the prompt is empty"),
        ("prompts:3", None),
    ]


def test_rows_lost_on_the_way_are_a_failure(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    import rayllm_ctl.serving.batch.inference as package

    rig.write("1.jsonl", LINES)
    monkeypatch.setattr(package.pipeline, "answers", lambda settings, parts, known: iter(()))
    code, events = rig.run(rig.settings("jsonl", "jsonl"))
    assert (code, events[-1]["message"]) == (3, "250 rows came back without an answer")


def test_a_repeated_answer_is_ignored(rig: Rig) -> None:
    from rayllm_ctl.serving.batch.collector import Collector
    from rayllm_ctl.serving.batch.outputs import Totals
    from rayllm_ctl.serving.batch.parts import Answer, Part, Source

    written: list[list[Answer]] = []

    def write(part: Part, answers: list[Answer]) -> list[str]:
        written.append(answers)
        return ["a", "b"]

    collector = Collector([(7, Part(Source(0, "f", "f", 1, 1), 0, 0, 1, 2))], write, Totals())
    for index, text in ((1, "second"), (1, "again"), (0, "first"), (0, "late")):
        collector.add(7, index, Answer(text))
    assert [[answer.answer for answer in part] for part in written] == [["first", "second"]]
    assert (collector.totals.rows, collector.missing) == (2, 0)


def saved(rig: Rig) -> list[str]:
    return sorted(path.name for path in rig.root.glob("out/_rayllm/answers-*"))


@pytest.mark.parametrize("to", ["jsonl", "parquet"])
def test_answers_of_a_part_that_is_not_complete_outlast_the_driver(rig: Rig, to: str) -> None:
    rig.write("1.jsonl", LINES)
    settings = rig.settings("jsonl", to)
    rig.stop_after, rig.seconds_per_row = 120, 0.5
    assert rig.run(settings)[0] == 3
    assert list(rig.root.glob("out/part-*")) == []
    # 20 answers between two saves of 10 s each, and the last one is from the 120th.
    assert len(saved(rig)) == 6
    rig.stop_after = None
    code, events = rig.run(settings)
    assert (code, rig.rows_asked) == (0, 130)
    assert events[-1].items() >= {"rows": 250, "answered": 250, "resumed": 120, "completionTokens": 750}.items()
    rows = rig.rows() if to == "jsonl" else rig.table().to_pylist()
    assert [(row["id"], "Say " + row["text"] in row["answer"]) for row in rows] == [(i, True) for i in range(250)]
    assert saved(rig) == []


def test_embeddings_outlast_the_driver_as_they_are(rig: Rig) -> None:
    rig.write("1.jsonl", LINES)
    settings = rig.settings("jsonl", "jsonl", task="embed", prompt={"template": "{{ text }}"})
    rig.stop_after, rig.seconds_per_row = 30, 1.0
    rig.run(settings)
    rig.stop_after = None
    assert rig.run(settings)[0] == 0
    assert rig.rows_asked == 220
    assert [row["answer"] for row in rig.rows()] == [[0.5, 2.0]] * 250


def test_answers_of_parts_that_are_complete_are_not_kept_twice(rig: Rig) -> None:
    rig.write("1.jsonl", LINES)
    rig.stop_after, rig.seconds_per_row = 110, 1.0
    rig.run(rig.settings("jsonl", "jsonl", job={"partRows": 50}))
    assert len(list(rig.root.glob("out/part-*"))) == 2
    assert len(saved(rig)) == 1


def test_a_part_whose_last_answer_was_saved_is_written_without_an_engine(rig: Rig) -> None:
    from rayllm_ctl.serving.batch.journal import Journal
    from rayllm_ctl.serving.batch.parts import Answer
    from rayllm_ctl.serving.batch.settings import Storage
    from rayllm_ctl.serving.batch.storage import Store

    rig.write("1.jsonl", LINES)
    settings = rig.settings("jsonl", "jsonl")
    rig.stop_after = 0
    rig.run(settings)
    clock = [0.0]
    fingerprint = json.loads((rig.root / "out/_rayllm/manifest.json").read_text())["fingerprint"]
    journal = Journal(Store(str(rig.root / "out"), Storage()), fingerprint, lambda: clock[0])
    for index in range(250):
        journal.add(0, index, Answer(f"a{index}"))
    clock[0] = 10.0
    journal.save_if_due()
    assert (rig.run(settings)[0], rig.asked) == (0, [])
    assert [row["answer"] for row in rig.rows()] == [f"a{i}" for i in range(250)]


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def with_damaged_pages(content: bytes) -> bytes:
    """A Parquet file ends with its metadata, their length and four characters; these stay as they are."""
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    return content[:4] + b"\xff" * (end - 4) + content[end:]


def with_other_columns(content: bytes) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(pa.BufferReader(content)).drop_columns(["part"])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    made: bytes = sink.getvalue().to_pybytes()
    return made


@pytest.mark.parametrize("damage", [half, with_damaged_pages, with_other_columns])
def test_a_saved_file_that_cannot_be_read_or_deleted_costs_only_its_rows(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes]
) -> None:
    from rayllm_ctl.serving.batch.failures import BatchError
    from rayllm_ctl.serving.batch.storage import Store

    def denied(*_: object) -> None:
        raise BatchError("AccessDenied", "access to answers was denied", "")

    rig.write("1.jsonl", LINES)
    settings = rig.settings("jsonl", "jsonl")
    rig.stop_after, rig.seconds_per_row = 45, 0.5
    rig.run(settings)
    first, second = saved(rig)
    file = rig.root / "out/_rayllm" / first
    file.write_bytes(damage(file.read_bytes()))
    rig.stop_after = None
    monkeypatch.setattr(Store, "delete", denied)
    assert (rig.run(settings)[0], rig.rows_asked) == (0, 230)
    assert [row["id"] for row in rig.rows()] == list(range(250))
    assert second in saved(rig)
    assert f"{first} cannot be read, so its rows are asked again" in rig.said
    assert "can be deleted after the job: access to answers was denied" in rig.said


def test_answers_of_another_job_are_not_taken_over(rig: Rig) -> None:
    rig.write("1.jsonl", LINES)
    rig.stop_after, rig.seconds_per_row = 100, 1.0
    rig.run(rig.settings("jsonl", "jsonl"))
    left = saved(rig)
    assert left
    (rig.root / "out/_rayllm/manifest.json").unlink()
    rig.stop_after = None
    code, events = rig.run(rig.settings("jsonl", "jsonl", sampling={"temperature": 1.0}))
    assert (code, rig.rows_asked, events[-1]["resumed"]) == (0, 250, 0)
    assert saved(rig) == left
