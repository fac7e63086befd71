"""A line per change: when it becomes true, once."""

from __future__ import annotations

import dataclasses
from contextlib import suppress

import pytest

from rayllm_ctl.console.live import LiveTree
from rayllm_ctl.console.progress import LinePrinter, choose
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.events import Applied, Checked, Event, Noted, Observed, Ready
from rayllm_ctl.model.health import State
from tests.conftest import Golden
from tests.console.sample import PULLING, READY, STUCK, Screen, at, plain

STORY: tuple[tuple[float, Event], ...] = (
    (0, Checked("KubeRay 1.6.2", True)),
    (0, Checked("quota", None, "may not be read")),
    (1, Applied("RayService", "qwen3-32b", "llm", "created")),
    (20, Observed(PULLING, 19)),
    (23, Observed(PULLING, 22)),
    (380, Observed(STUCK, 379)),
    (400, Noted("another node came")),
    (600, Observed(READY, 599)),
    (600, Ready("qwen3-32b", "llm", 599, READY)),
)


def draw(story: tuple[tuple[float, Event], ...], screen: Screen) -> str:
    now = [at(0)]
    with LinePrinter(plain(screen), clock=lambda: now[0]) as printer:
        for seconds, event in story:
            now[0] = at(seconds)
            printer.handle(event)
    return screen.getvalue()


def test_the_story_of_a_start(golden: Golden) -> None:
    golden.check("lines.txt", draw(STORY, Screen()))


def test_nothing_is_told_twice_while_it_stays_so() -> None:
    once = draw(STORY[:4], Screen())
    again = draw((*STORY[:4], *[(30.0 + n, STORY[3][1]) for n in range(20)]), Screen())
    assert again == once


def test_figures_that_grow_make_no_new_cause() -> None:
    cause = STUCK.causes[0]
    later = dataclasses.replace(
        STUCK, causes=(dataclasses.replace(cause, message=cause.message.replace("is 2", "is 3")),)
    )
    lines = draw(((1, Observed(STUCK, 1)), (9, Observed(later, 9))), Screen()).splitlines()
    assert len([line for line in lines if "InsufficientGPU" in line]) == 1


def test_a_trouble_that_comes_back_is_told_again() -> None:
    lines = draw(((1, Observed(STUCK, 1)), (5, Observed(READY, 5)), (9, Observed(STUCK, 9))), Screen()).splitlines()
    assert len([line for line in lines if "InsufficientGPU" in line]) == 2


def test_a_part_that_vanishes_is_told() -> None:
    fewer = dataclasses.replace(READY, parts=READY.parts[:-2])
    assert "worker/qwen3-32b-x7k2p-gpu-worker-zz7pk is gone" in draw(
        ((1, Observed(READY, 1)), (2, Observed(fewer, 2))), Screen()
    )


@pytest.mark.parametrize(
    ("terminal", "environment", "live", "kind"),
    [
        (True, {}, True, LiveTree),
        (True, {"NO_COLOR": "1"}, True, LiveTree),
        (True, {}, False, LinePrinter),
        (False, {}, True, LinePrinter),
        (True, {"TERM": "dumb"}, True, LinePrinter),
    ],
)
def test_a_tree_only_where_the_cursor_can_move(
    terminal: bool, environment: dict[str, str], live: bool, kind: type[object]
) -> None:
    style = Printer.on(Screen(terminal), environment=environment)
    assert type(choose(style, live)) is kind


def test_the_tree_stays_and_ends_with_the_result() -> None:
    screen = Screen(terminal=True)
    with LiveTree(Printer(screen, colors=False, unicode=True, terminal=True)) as tree:
        for _, event in STORY:
            tree.handle(event)
    text = screen.getvalue()
    assert "rayservice/qwen3-32b created" in text
    assert "└─ endpoint" in text
    assert "✔ ready" in text.rstrip().splitlines()[-1]
    assert "\x1b[?25h" in text, "the cursor is shown again"


def test_an_error_leaves_the_last_tree() -> None:
    screen = Screen(terminal=True)
    with suppress(KeyboardInterrupt), LiveTree(Printer(screen, colors=False, unicode=True, terminal=True)) as tree:
        tree.handle(Observed(STUCK, 3))
        raise KeyboardInterrupt
    assert screen.getvalue().rstrip().endswith("\x1b[?25h")
    assert "no node has 4 free GPUs" in screen.getvalue()


@pytest.mark.parametrize("state", State)
def test_the_state_stands_apart_from_the_name(state: State) -> None:
    screen = Screen(terminal=True)
    with LiveTree(Printer(screen, colors=False, unicode=True, terminal=True)) as tree:
        tree.handle(Observed(dataclasses.replace(PULLING, state=state), 3))
    assert f"{state.value.lower()}qwen3-32b" not in screen.getvalue()
    assert f"{state.value.lower()} " in screen.getvalue()
