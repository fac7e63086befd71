"""The wait of serving pods."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count

import pytest

from rayllm_ctl.serving.storage.settings import load_settings
from rayllm_ctl.serving.storage.wait import wait
from tests.serving.storage.conftest import MODEL, SHARDS, Rig, model, told

Capture = pytest.CaptureFixture[str]


def test_a_complete_folder_is_not_waited_for(rig: Rig, capsys: Capture) -> None:
    rig.download(capsys)
    wait(load_settings(rig.settings()), sleep=lambda _: pytest.fail("waited"))
    assert told(capsys.readouterr().out) == []


def cut(rig: Rig) -> None:
    (rig.target / SHARDS[0]).write_bytes(b"12345")


def remove(rig: Rig) -> None:
    (rig.target / "config.json").unlink()


def unmark(rig: Rig) -> None:
    (rig.target / ".rayllm-complete").unlink()


def mark_otherwise(rig: Rig) -> None:
    path = rig.target / ".rayllm-complete"
    path.write_text(json.dumps({**json.loads(path.read_text()), "revision": "v1"}))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (unmark, "no marker"),
        (cut, f"{SHARDS[0]} has 5 of {len(model()[SHARDS[0]])} bytes"),
        (remove, "config.json is missing"),
        (mark_otherwise, "the folder has revision v1, not main"),
    ],
)
def test_the_reason_is_told_at_most_every_30_seconds(
    rig: Rig, capsys: Capture, damage: Callable[[Rig], None], why: str
) -> None:
    rig.download(capsys)
    complete = {path: path.read_bytes() for path in rig.target.rglob("*") if path.is_file()}
    damage(rig)
    seconds = count(step=2)

    def sleep(_: float) -> None:
        if next(polls) == 20:
            for path, found in complete.items():
                path.write_bytes(found)

    polls = count()
    wait(load_settings(rig.settings()), sleep=sleep, clock=lambda: float(next(seconds)))
    waiting = told(capsys.readouterr().out)
    assert {(event["event"], event["folder"], event["why"]) for event in waiting} == {("waiting", str(rig.target), why)}
    assert 2 <= len(waiting) <= 4


def test_another_source_is_not_the_model(rig: Rig, capsys: Capture) -> None:
    rig.download(capsys)

    class Enough(Exception):
        pass

    def stop(_: float) -> None:
        raise Enough

    with pytest.raises(Enough):
        wait(load_settings(rig.settings(source="hf://acme/other")), sleep=stop)
    assert told(capsys.readouterr().out)[-1]["why"] == f"the folder has hf://{MODEL}, not hf://acme/other"
