"""Server-sent events in any pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.loadtest.events import EventReader

TEXTS = ["naïve", "日本", "", "{}", "a: b"]


def read(pieces: list[bytes]) -> list[str]:
    reader = EventReader()
    return [data.decode() for piece in pieces for data in reader.feed(piece)]


@given(
    st.lists(st.sampled_from(TEXTS), max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_however_the_bytes_are_split(texts: list[str], end: str, cuts: list[int]) -> None:
    lines = [f": comment{end}event: x{end}data: {text}{end}{end}" for text in texts]
    # What follows shows that the last event has ended, also after a lone CR.
    data = ("".join(lines) + f": end{end}").encode()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[begin:stop] for begin, stop in pairwise(places)]
    assert read(pieces) == texts


def test_several_lines_of_data_are_one_event() -> None:
    assert read([b"data: a\ndata:b\nid: 3\n\ndata: half"]) == ["a\nb"]
