"""The table of replicas, once and redrawn."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from rayllm_ctl.console.observe.blocks import BlockDisplay, without_ages
from rayllm_ctl.console.observe.top import load_table
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.observed.health import QueueState
from rayllm_ctl.model.observed.ray_metrics import PodGPUs
from rayllm_ctl.model.observed.top import ReplicaLoad, ServiceLoad
from tests.conftest import Golden
from tests.console.sample import Screen

MIB = 2**20
BUSY = ReplicaLoad(
    "Qwen/Qwen3-32B", "zd25t3t0", 1024, 17, 81234.56, 99.94, 0.8149, PodGPUs(4, 0.913, 291_736 * MIB, 326_236 * MIB),
    "qwen3-32b-x7k2p-gpu-worker-9dq4c", "gpu-h100-7",
)  # fmt: skip
UNKNOWN = ReplicaLoad("tiny", "atsywcrc", None, None, None, None, None, None, "w2", None)
SERVER = ReplicaLoad("tiny", None, 0, 0, 0.0, 0.0, 0.0, None, "own-server-worker-2v7zq", "n2")


def test_tables(golden: Golden) -> None:
    several = ServiceLoad((BUSY, UNKNOWN), QueueState(3, 12, 100), ("why",))
    unread = ServiceLoad(None, problems=("Serve's state could not be read: no answer within 4 s",))
    loads = (several, ServiceLoad((SERVER,)), ServiceLoad((), QueueState(0, 0)), unread)
    golden.check("top.txt", "\n".join(map(load_table, loads)))


def test_blocks_without_a_terminal() -> None:
    out, err = Screen(), Screen()
    clock = iter([datetime(2026, 11, 21, 10, 40, 2), datetime(2026, 11, 21, 10, 40, 4)]).__next__
    with BlockDisplay(Printer.on(out), Printer.on(err), clock=clock) as display:
        for load in (ServiceLoad((), problems=("a", "b")), ServiceLoad((), problems=("b", "c"))):
            display.draw(load_table(load))
            display.note(load.problems)
    assert out.getvalue() == "10:40:02\nno running replicas\n\n10:40:04\nno running replicas\n\n"
    assert err.getvalue() == "a\nb\nc\n"


def test_it_is_redrawn_on_a_terminal_with_problems_above(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    out, err = Screen(terminal=True), Screen(terminal=True)
    with BlockDisplay(Printer.on(out, environment={}), Printer.on(err, environment={})) as display:
        display.draw(load_table(ServiceLoad((SERVER,))))
        display.note(["the reason"])
        display.draw(load_table(ServiceLoad(())))
    drawn = out.getvalue()
    assert drawn.index("own-server-worker-2v7zq") < drawn.index("the reason") < drawn.index("no running replicas")
    assert "\x1b[2K" in drawn, "lines are erased"
    assert err.getvalue() == ""


def test_problems_stay_on_standard_error_where_that_is_no_terminal() -> None:
    out, err = Screen(terminal=True), Screen()
    with BlockDisplay(Printer.on(out, environment={}), Printer.on(err)) as display:
        display.draw(load_table(ServiceLoad(())))
        display.note(["the reason"])
    assert err.getvalue() == "the reason\n"
    assert "the reason" not in out.getvalue()


def test_a_terminal_in_ci_is_not_redrawn() -> None:
    out = Screen(terminal=True)
    with BlockDisplay(Printer.on(out, environment={}), Printer.on(Screen()), live=False) as display:
        display.draw(load_table(ServiceLoad(())))
    assert "\x1b" not in out.getvalue()


def test_a_change_of_ages_alone_is_no_change() -> None:
    out = Screen()
    clock = lambda: datetime(2026, 11, 21, 10, 40, 2)  # noqa: E731
    with BlockDisplay(Printer.on(out), Printer.on(Screen()), clock=clock) as display:
        for text in ("Stuck  for 59s  1 of 2\n", "Stuck  for 1m00s  1 of 2\n", "Stuck  for 1m02s  2 of 2\n"):
            display.draw_change(text)
    assert out.getvalue() == "10:40:02\nStuck  for 59s  1 of 2\n\n10:40:02\nStuck  for 1m02s  2 of 2\n\n"
    assert without_ages("a  9s    b") == without_ages("a  1m02s  b")
    assert without_ages("2 GPU 40s") == without_ages("2 GPU 1d02h") != without_ages("3 GPU 40s")


def test_lines_that_wrap_are_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    hint = "hint  rayllm-ctl deploy -f qwen.yaml --upgrade in-place --accept-outage"
    for wrap in (True, False):
        out = Screen(terminal=True)
        with BlockDisplay(Printer.on(out, environment={}), Printer.on(Screen()), wrap=wrap) as display:
            display.draw(hint)
        words = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\s+", " ", out.getvalue())
        assert ("--accept-outage" in words, "…" in words) == (wrap, not wrap)
