"""A line per change: when it becomes true, once."""

from __future__ import annotations

import dataclasses
from contextlib import suppress

import pytest

from rayllm_ctl.console.observe.live import LiveTree
from rayllm_ctl.console.observe.progress import LinePrinter, choose_progress
from rayllm_ctl.console.observe.tree import tree_lines
from rayllm_ctl.console.style import Printer
from rayllm_ctl.model.events import Applied, Checked, Event, Noted, Observed, Ready
from rayllm_ctl.model.observed.health import Health, State, StatusNode
from rayllm_ctl.model.observed.model_downloads import DownloadState, ModelDownload
from tests.conftest import Golden
from tests.console.sample import PULLING, READY, STUCK, Screen, at, health, plain

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


def test_a_node_that_vanishes_is_reported() -> None:
    fewer = dataclasses.replace(READY, tree=READY.tree[:-2])
    assert "worker/qwen3-32b-x7k2p-gpu-worker-zz7pk is gone" in draw(
        ((1, Observed(READY, 1)), (2, Observed(fewer, 2))), Screen()
    )


def app(cluster: str, count: str, *replicas: StatusNode) -> StatusNode:
    return StatusNode("application", "llm", "RUNNING", f"LLMServer {count}", replicas, cluster=cluster)


def worker(cluster: str, name: str, state: str = "Running") -> StatusNode:
    return StatusNode("worker", name, state, "on gpu-1", cluster=cluster)


def replica(cluster: str, name: str) -> StatusNode:
    return StatusNode("replica", f"LLMServer#{name}", "RUNNING", f"on w-{name}", cluster=cluster)


SERVING = dataclasses.replace(READY, tree=(app("a", "1 of 1", replica("a", "r1")), worker("a", "w-r1")))
UPGRADING = dataclasses.replace(
    SERVING,
    state=State.PROGRESSING,
    tree=(
        StatusNode("cluster", "a", "Active", children=SERVING.tree, cluster="a"),
        StatusNode(
            "cluster", "b", "Pending", children=(app("b", "0 of 1"), worker("b", "w-r2", "Pulling")), cluster="b"
        ),
    ),
)


def test_an_upgrade_prints_every_line_once_and_says_whose_it_is() -> None:
    story = [(float(n), Observed(SERVING if n == 0 else UPGRADING, float(n))) for n in range(20)]
    lines = [line[9:] for line in draw(tuple(story), Screen()).splitlines()]
    assert len(lines) == len(set(lines))
    assert "cluster     worker 1 of 1 pulling on gpu-1 (b)" in lines
    assert "cluster     cluster b pending" in lines
    assert not [line for line in lines if "gone" in line]
    assert len([line for line in lines if "w-r1" in line]) == 1


def test_the_old_cluster_is_reported_gone_once_it_is() -> None:
    after = dataclasses.replace(SERVING, tree=(app("b", "1 of 1", replica("b", "r2")), worker("b", "w-r2")))
    lines = draw(((1, Observed(UPGRADING, 1)), (2, Observed(after, 2))), Screen())
    assert "worker/w-r1 is gone" in lines
    assert "cluster/a is gone" in lines
    assert "cluster/b is gone" not in lines


def test_a_dashboard_that_does_not_answer_hides_no_replica() -> None:
    slow = dataclasses.replace(
        SERVING,
        tree=(StatusNode("application", "llm", "RUNNING", cluster="a"), worker("a", "w-r1")),
        replicas_running=1,
        replicas_verified=False,
        serve_unread=("a",),
        notes=("Serve state could not be read: no answer within 4 s",),
    )
    story = tuple((float(n), Observed(slow if n % 2 else SERVING, float(n))) for n in range(10))
    lines = draw(story, Screen())
    assert "gone" not in lines
    assert lines.count("app llm RUNNING") == 1
    assert lines.count("Serve state could not be read") == 1
    assert "1 of 2 running" not in lines


def test_more_replicas_than_wanted_are_scaling_down() -> None:
    fewer = dataclasses.replace(READY, replicas_running=1, replicas_wanted=0)
    assert "1 (scaling down to 0) running" in draw(((1, Observed(fewer, 1)),), Screen())


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
    assert type(choose_progress(style, live)) is kind


def test_the_tree_stays_and_ends_with_the_result() -> None:
    screen = Screen(terminal=True)
    with LiveTree(Printer(screen, colors=False, terminal=True)) as tree:
        for _, event in STORY:
            tree.handle(event)
    text = screen.getvalue()
    assert "rayservice/qwen3-32b created" in text
    assert "└─ endpoint" in text
    assert "✔ ready" in text.rstrip().splitlines()[-1]
    assert "\x1b[?25h" in text, "the cursor is shown again"


def test_an_error_leaves_the_last_tree() -> None:
    screen = Screen(terminal=True)
    with suppress(KeyboardInterrupt), LiveTree(Printer(screen, colors=False, terminal=True)) as tree:
        tree.handle(Observed(STUCK, 3))
        raise KeyboardInterrupt
    assert screen.getvalue().rstrip().endswith("\x1b[?25h")
    assert "no node has 4 free GPUs" in screen.getvalue()


@pytest.mark.parametrize("state", State)
def test_the_state_stands_apart_from_the_name(state: State) -> None:
    screen = Screen(terminal=True)
    with LiveTree(Printer(screen, colors=False, terminal=True)) as tree:
        tree.handle(Observed(dataclasses.replace(PULLING, state=state), 3))
    assert f"{state.value.lower()}qwen3-32b" not in screen.getvalue()
    assert f"{state.value.lower()} " in screen.getvalue()


def downloading(done: int, state: DownloadState = DownloadState.DOWNLOADING) -> Health:
    """A service whose model is downloaded, with `done` of 100 GB."""
    known = state is DownloadState.DOWNLOADING
    download = ModelDownload(
        "qwen3-32b-model-0a1b2c3d", "hf://Qwen/Qwen3-32B", state, bytes=done * 10**9 if known else None,
        total=100 * 10**9 if known else None, percent=done if known else None, bytes_per_second=310e6,
        seconds_left=(100 - done) * 3.0,
    )  # fmt: skip
    node = StatusNode("download", download.job, state.value, "Qwen/Qwen3-32B")
    nodes = () if state is DownloadState.COMPLETE else (node,)
    return health(20, *nodes, message="downloading Qwen/Qwen3-32B", downloads=(download,))


def test_a_download_has_a_line_for_each_tenth_and_one_at_its_end() -> None:
    story = [(n, Observed(downloading(n), n)) for n in range(0, 25, 3)]
    end = (30, Observed(downloading(100, DownloadState.COMPLETE), 30))
    lines = [line[9:] for line in draw((*story, end, end), Screen()).splitlines() if " download " in line]
    assert lines == [
        "download    Qwen/Qwen3-32B: downloading",
        "download    Qwen/Qwen3-32B: 0 B of 100 GB (0 %), 310 MB/s, 5m00s left",
        "download    Qwen/Qwen3-32B: 12.0 of 100 GB (12 %), 310 MB/s, 4m24s left",
        "download    Qwen/Qwen3-32B: 21.0 of 100 GB (21 %), 310 MB/s, 3m57s left",
        "download    Qwen/Qwen3-32B is complete",
    ]


def test_the_tree_shows_how_far_a_download_is() -> None:
    lines = tree_lines(downloading(62), plain())
    assert lines[0] == "├─ download  Downloading  Qwen/Qwen3-32B: 62.0 of 100 GB (62 %), 310 MB/s, 1m54s left"
