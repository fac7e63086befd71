"""Answers of the stand-in that wait until they are released."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from e2e.images.engine.rayllm_standin import holds
from e2e.images.engine.rayllm_standin.holds import Hold


@pytest.mark.parametrize(
    ("prompt", "hold"),
    [
        ("Say HOLD first", Hold("first", 0)),
        ("Say HOLD a-1 AFTER 3 and more", Hold("a-1", 3)),
        ("WITHHOLD first", None),
        ("hold first", None),
        ("", None),
    ],
)
def test_what_a_prompt_asks_for(prompt: str, hold: Hold | None) -> None:
    assert holds.wanted(prompt) == hold


def held(folder: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in folder.glob("held/*"))


def test_an_answer_waits_for_its_own_release_and_leaves_nothing_when_it_is_aborted(tmp_path: Path) -> None:
    async def run() -> None:
        async with asyncio.timeout(60):
            one, other, aborted = (
                asyncio.create_task(holds.wait(Hold(name, 0), tmp_path)) for name in ("one", "other", "aborted")
            )
            while held(tmp_path) != ["aborted", "one", "other"]:
                await asyncio.sleep(0)
            aborted.cancel()
            (tmp_path / "released").mkdir()
            (tmp_path / "released/one").touch()
            await one
            await asyncio.wait([aborted])
            assert held(tmp_path) == ["other"]
            assert not other.done()
            (tmp_path / "released/other").touch()
            await other
            assert held(tmp_path) == []

    asyncio.run(run())
