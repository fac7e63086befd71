"""When there are colours and symbols, and how an error reads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rayllm_ctl.console.style import Color, Printer
from tests.console.sample import Screen


@pytest.mark.parametrize(
    ("color", "terminal", "environment", "colours"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("always", False, {}, True),
        ("always", True, {"NO_COLOR": "1"}, False),
        ("never", True, {}, False),
    ],
)
def test_when_there_are_colours(color: Color, terminal: bool, environment: dict[str, str], colours: bool) -> None:
    assert Printer.on(Screen(terminal), color, environment).colors is colours


def test_a_dumb_terminal_has_no_cursor_to_move() -> None:
    assert Printer.on(Screen(terminal=True), environment={"TERM": "xterm"}).terminal
    assert not Printer.on(Screen(terminal=True), environment={"TERM": "dumb"}).terminal


def test_an_error_says_what_failed_and_then_what_to_type() -> None:
    screen = Screen()
    Printer.on(screen, environment={}).error("it broke", ("rayllm-ctl status", "rayllm-ctl watch"))
    assert screen.getvalue() == "✗ it broke\n\nhint: rayllm-ctl status\n      rayllm-ctl watch\n"


def test_colour_is_around_the_symbol_only_where_wanted() -> None:
    assert Printer.on(Screen(), "always", {}).symbol("ok") == "\x1b[32m✔\x1b[0m"
    assert Printer.on(Screen(), "never", {}).symbol("ok") == "✔"


def test_only_the_live_tree_needs_rich() -> None:
    code = "import sys; from rayllm_ctl.console.observe import progress, status; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
