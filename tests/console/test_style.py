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


@pytest.mark.parametrize(
    ("environment", "symbol"),
    [
        ({}, "✔"),
        ({"LANG": "de_DE.UTF-8"}, "✔"),
        ({"LC_ALL": "C.utf8", "LANG": "C"}, "✔"),
        ({"LC_ALL": "C"}, "+"),
        ({"LC_ALL": "", "LC_CTYPE": "POSIX", "LANG": "en_US.UTF-8"}, "+"),
        ({"LANG": "en_US.ISO-8859-1"}, "+"),
    ],
)
def test_a_locale_without_utf_8_has_plain_characters(environment: dict[str, str], symbol: str) -> None:
    screen = Screen()
    printer = Printer.on(screen, environment=environment)
    printer.line(f"{printer.symbol('ok')} 2 × L4 → 3 · …")
    assert screen.getvalue() == (f"{symbol} 2 × L4 → 3 · …\n" if symbol == "✔" else "+ 2 x L4 -> 3 . ...\n")


def test_no_live_view_without_the_characters_for_it() -> None:
    assert not Printer.on(Screen(terminal=True), environment={"LC_ALL": "C"}).terminal


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("140", 140), ("20", 60)])
def test_the_width_is_that_of_the_terminal(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert Printer.on(Screen(terminal=True), environment={}).width(100) == width
    assert Printer.on(Screen(), environment={}).width(100) == 100


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
