"""Text as it comes, and stop sequences that lie across tokens."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.serving.generation.stops import TextStream


def decode(tokens: Sequence[int]) -> str:
    """A byte for each token, as byte-level tokenizers have them."""
    return bytes(tokens).decode(errors="replace")


def through(data: bytes, stops: Sequence[str] = ()) -> tuple[list[str], bool]:
    stream = TextStream(decode, stops, b"ab")
    parts = []
    for token in data:
        parts.append(stream.push(token))
        if stream.stopped:
            return parts, True
    return [*parts, stream.finish()], stream.stopped


def test_a_character_comes_when_it_is_complete() -> None:
    parts, _ = through("a€".encode())
    assert parts == ["a", "", "", "€", ""]
    assert through("€".encode()[:2])[0] == ["", "", "\ufffd"]


def test_what_may_be_a_stop_sequence_is_kept_back() -> None:
    assert through(b"xEOy", ["EOF"]) == (["x", "", "", "EOy", ""], False)
    assert through(b"xEOFy", ["EOF"]) == (["x", "", "", ""], True)
    assert through(b"xEO", ["EOF"]) == (["x", "", "", "EO"], False)
    assert through(b"aab", ["ab"]) == (["", "a", ""], True)


def test_the_first_of_several_stop_sequences_counts() -> None:
    parts, stopped = through(b"one two", ["two", " "])
    assert ("".join(parts), stopped) == ("one", True)


TEXT = st.text("ab€\n", max_size=12)


@given(TEXT, st.lists(st.text("ab€\n", min_size=1, max_size=4), max_size=3))
def test_the_parts_are_the_text_up_to_the_first_stop_sequence(text: str, stops: list[str]) -> None:
    parts, stopped = through(text.encode(), stops)
    found = [place for stop in stops if (place := text.find(stop)) >= 0]
    together = "".join(parts)
    assert stopped == bool(found)
    assert not any(stop in together for stop in stops)
    # A sequence is seen when it ends, so one that began earlier and ended later may lose to it.
    assert text.startswith(together)
    if not found:
        assert together == text
