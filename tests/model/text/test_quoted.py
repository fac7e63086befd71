"""Values that errors repeat."""

from __future__ import annotations

from rayllm_ctl.model.text.problems import quoted


def test_what_a_terminal_would_act_on_is_escaped() -> None:
    assert quoted('a\n\x1b[31m\x7f\x9b\u202e"é模 b') == '"a\\n\\u001b[31m\\u007f\\u009b\\u202e\\"é模 b"'
