"""`logs -f`: logs that begin, end and break off while they are followed."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cluster import connect
from rayllm_ctl.cluster.api import follower as cluster_watch
from rayllm_ctl.errors import UserError
from rayllm_ctl.workflows.observe.logs import follow as logfollow
from rayllm_ctl.workflows.observe.logs import position as logposition
from rayllm_ctl.workflows.observe.logs.lines import LogLine
from rayllm_ctl.workflows.observe.logs.read import log_lines
from tests.cli.conftest import Deploy, Run
from tests.cli.observe.test_logs import RAY_LOG, SERVE, replica, serving
from tests.cli.test_commands_raycluster import KIND
from tests.cli.test_commands_service import TINY
from tests.cluster.fakeapi import FakeAPI, Request, status
from tests.cluster.fakehttp import kubeconfig

pytestmark = pytest.mark.connections

SERVICE = "/rayservices/tiny$"
HEAD, WORKER = "tiny-bcdfg-head", "tiny-bcdfg-worker"


class Log:
    """A log that grows: who follows it gets as much of its end as is asked for, and then what is added."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.asked: list[dict[str, str]] = []
        self.cuts = 0
        self._lock = threading.Lock()
        self.followers = 0
        self.ended = False

    def cut(self, *lines: str) -> None:
        """Break the connections, and add lines that those who come again get."""
        with self._lock:
            self.cuts += 1
            self.lines += lines

    def left(self, line: str) -> bool:
        """Whether nobody takes another line."""
        self.lines.append(line)
        return self.followers == 0

    def respond(self, request: Request) -> tuple[int, Any]:
        query = request.query
        self.asked.append(query)
        number = int(query.get("lines") or query.get("tailLines") or -1)
        since = query.get("sinceTime", "")[:19]
        wanted = [line for line in self.lines if line[:19] >= since]
        begin = len(self.lines) - len(wanted if number == -1 else wanted[-number:])
        cuts = self.cuts

        def send(connection: Any) -> None:
            self.followers += 1
            sent = begin
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while True:
                    with self._lock:
                        if cuts != self.cuts:
                            return
                        ended, new = self.ended, self.lines[sent:]
                    for line in new:
                        connection.sendall(b"%x\r\n%s\n\r\n" % (len(line) + 1, line.encode()))
                    sent += len(new)
                    if ended:
                        connection.sendall(b"0\r\n\r\n")
                        return
                    time.sleep(0.005)
            except OSError:
                pass
            finally:
                self.followers -= 1

        return 200, send


class Following:
    """The lines and notes of `logs -f`, as they come. After 20 s the service is deleted, which ends it."""

    def __init__(self, api: FakeAPI, folder: Path, part: Any = "replicas", **more: Any) -> None:
        cluster = connect(str(kubeconfig(folder / "followed", api.url, token="t")), request_timeout=5)
        self._items = log_lines(cluster, "tiny", "llm", part, follow=True, **more)
        self._limit = threading.Timer(20, lambda: api.remove("RayService", "tiny"))
        self._limit.daemon = True
        self._limit.start()

    def until(self, text: str) -> list[str]:
        """What comes up to the first line or note that contains `text`."""
        seen: list[str] = []
        for item in self._items:
            seen.append(f"[{item.source}] {item.text}" if isinstance(item, LogLine) else item.message)
            if text in seen[-1]:
                return seen
        raise AssertionError(f"{text!r} did not come: {seen}")

    def rest(self) -> list[str]:
        seen = [item.text if isinstance(item, LogLine) else item.message for item in self._items]
        self._limit.cancel()
        return seen


Follow = Callable[..., Following]


@pytest.fixture
def follow(api: FakeAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Follow:
    monkeypatch.setattr(logfollow, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(logfollow, "WAIT_SECONDS", 0.05)
    return lambda *args, **more: Following(api, tmp_path, *args, **more)


@pytest.fixture
def logs(api: FakeAPI, deploy: Deploy) -> Iterator[dict[str, Log]]:
    """Logs by the letter of a replica, or the name of a pod. They end with the test."""
    deploy(*TINY)
    found: dict[str, Log] = {}

    def ray(request: Request) -> tuple[int, Any]:
        query = request.query
        name = re.findall(r"replica_(\w)", query.get("filename", "")) or [query.get("actor_id", "?")[0]]
        return found[name[0]].respond(request) if name[0] in found else (500, b"a file is not found")

    def container(request: Request) -> tuple[int, Any]:
        pod = request.path.split("/")[-2]
        return found[pod].respond(request) if pod in found else status(400, "waiting to start", "BadRequest")

    api.answer("GET", RAY_LOG, ray)
    api.answer("GET", "/pods/[^/]+/log$", container)
    yield found
    for log in found.values():
        log.ended = True


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def some_looks(api: FakeAPI) -> None:
    """Wait until logs have been looked for a few times."""
    before = api.count("GET", SERVICE)
    until(lambda: api.count("GET", SERVICE) >= before + 4)


def restarted(api: FakeAPI, pod: str, count: int, state: str = "running") -> None:
    """Let the pod's container be in its run `count`."""
    item = api.stored("Pod", pod)
    box = item["status"]["containerStatuses"][0]
    changed = {**box, "restartCount": count, "state": {state: {}}, "lastState": {"terminated": {"exitCode": 1}}}
    api.update("kubelet", "Pod", pod, status={**item["status"], "containerStatuses": [changed]})


def test_a_download_is_followed_before_its_service_is_applied(
    api: FakeAPI, logs: dict[str, Log], follow: Follow
) -> None:
    logs["m-a"] = Log("first")
    labels = {
        "app.kubernetes.io/component": "model-download", "rayllm.io/service": "tiny",
        "batch.kubernetes.io/job-name": "m",
    }  # fmt: skip
    box = {"name": "download", "state": {"running": {}}, "restartCount": 0}
    api.put(kind="Pod", metadata={"name": "m-a", "labels": labels}, spec={"containers": [{"name": "download"}]},
            status={"phase": "Running", "containerStatuses": [box]})  # fmt: skip
    api.remove("RayService", "tiny")
    lines = follow("download")
    assert lines.until("first")
    some_looks(api)
    logs["m-a"].lines.append("second")
    assert lines.until("second")
    api.remove("Pod", "m-a")
    assert "rayservice/tiny was deleted" in lines.rest()


def test_replicas_that_come_and_go(api: FakeAPI, logs: dict[str, Log], follow: Follow) -> None:
    logs |= {letter: Log(f"{letter} first") for letter in "abc"}
    serving(api, models=[replica("a", "w1")])
    lines = follow()
    assert lines.until("a first") == ["[w1] a first"]
    serving(api, models=[replica("a", "w1"), replica("b", "w2")])
    assert lines.until("b first") == ["pod/w2: new replica", "[w2] b first"]
    serving(api, models=[replica("b", "w2")])
    assert lines.until("ended") == ["pod/w1: replica ended"]
    until(lambda: logs["a"].left("no longer read"))

    def told(text: str) -> list[str]:
        # What was written before a connection was closed may still come.
        return [line for line in lines.until(text) if "no longer read" not in line]

    serving(api, models=[replica("c", "w2")])
    assert told("c first") == ["pod/w2: replica restarted", "[w2] c first"]
    serving(api, models=[])
    assert told("waiting") == ["pod/w2: replica ended", "there is no replica of tiny now: waiting"]
    until(lambda: logs["c"].left("no longer read"))
    serving(api, models=[replica("c", "w2")])  # Serve's controller was away for a moment
    logs["c"].lines.append("c last")
    assert told("c last") == ["pod/w2: new replica", "[w2] c last"]
    api.remove("RayService", "tiny")
    assert lines.rest() == ["rayservice/tiny was deleted"]


def test_what_is_new_is_read_from_its_beginning_and_what_was_there_from_its_end(
    api: FakeAPI, logs: dict[str, Log], follow: Follow
) -> None:
    logs |= {"a": Log("1", "2", "3"), "b": Log("1", "2", "3")}
    serving(api, models=[replica("a", "w1")])
    lines = follow(tail=1)
    assert lines.until("3") == ["[w1] 3"]
    serving(api, models=[replica("a", "w1"), replica("b", "w2")])
    assert lines.until("3") == ["pod/w2: new replica", "[w2] 1", "[w2] 2", "[w2] 3"]


def test_replicas_of_a_head_that_could_not_be_asked_at_first_are_not_new(
    api: FakeAPI, logs: dict[str, Log], follow: Follow
) -> None:
    logs["a"] = Log("1", "2", "3")
    api.answer("GET", SERVE, (503, b"no endpoints available"))
    lines = follow(tail=1)
    assert lines.until("waiting") == [
        "Serve state of RayCluster tiny-bcdfg could not be read: no endpoints available",
        "whether there is a replica of tiny is unknown: waiting",
    ]
    serving(api, models=[replica("a", "w1")])
    assert lines.until("3") == ["pod/w1: new replica", "[w1] 3"]
    api.answer("GET", SERVE, (503, b"no endpoints available"))
    assert lines.until("read") == ["Serve state of RayCluster tiny-bcdfg could not be read: no endpoints available"]
    logs["a"].lines.append("4")  # a head that is away ends no replica
    assert lines.until("4") == ["[w1] 4"]


def test_a_file_that_breaks_off_goes_on_where_it_was(
    api: FakeAPI, logs: dict[str, Log], follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logposition, "RESUMED_LINES", 30)
    monkeypatch.setattr(logposition, "_SEARCH_SECONDS", 60.0)
    logs["a"] = log = Log(*(str(number) for number in range(100, 125)))
    serving(api, models=[replica("a", "w1")])
    lines = follow(tail=3)
    assert lines.until("124") == ["[w1] 122", "[w1] 123", "[w1] 124"]
    log.cut("125", "126")
    assert lines.until("126") == ["[w1] 125", "[w1] 126"]
    log.cut(*(str(number) for number in range(200, 240)))  # more than is looked through: the first ones are lost
    assert lines.until("239") == [f"[w1] {number}" for number in range(210, 240)]


def test_a_containers_log_that_breaks_off_goes_on_where_it_was(
    api: FakeAPI, logs: dict[str, Log], follow: Follow
) -> None:
    moment = "2026-11-21T09:00:0{}.{:09d}Z {}"
    logs[HEAD] = log = Log(moment.format(1, 0, "one"), moment.format(2, 5, "two"), moment.format(2, 5, "three"))
    lines = follow("head", tail=2)
    assert lines.until("three") == [f"[{HEAD}] two", f"[{HEAD}] three"]
    log.cut(moment.format(2, 5, "four"), moment.format(2, 6, "five"))
    assert lines.until("five") == [f"[{HEAD}] four", f"[{HEAD}] five"]
    assert log.asked[-1]["sinceTime"] == "2026-11-21T09:00:02.000000005Z"
    log.cut(moment.format(3, 0, "six"))
    assert lines.until("six") == [f"[{HEAD}] six"]


def test_runs_of_a_container(api: FakeAPI, logs: dict[str, Log], follow: Follow) -> None:
    logs[HEAD] = Log("first run")
    lines = follow("head")
    assert lines.until("first run") == [f"[{HEAD}] first run"]
    logs[HEAD].ended = True
    restarted(api, HEAD, 0, "waiting")
    some_looks(api)  # at which the run that has ended is not read again
    logs[HEAD] = Log("second run")
    restarted(api, HEAD, 1)
    assert lines.until("second run") == [f"pod/{HEAD}: head restarted", f"[{HEAD}] second run"]


def test_a_log_that_ends_is_not_read_again_at_once(api: FakeAPI, logs: dict[str, Log], follow: Follow) -> None:
    """The state of its container may be older than its end, and what is read may be the log of the next run."""
    logs[HEAD] = log = Log("first run")
    lines = follow("head")
    lines.until("first run")
    held: list[str] = []
    gate = threading.Semaphore(0)

    def hold(request: Request) -> None:
        held.append(request.path)
        gate.acquire(timeout=20)

    api.answer("GET", "/pods$", hold)
    threading.Thread(target=lines.rest, daemon=True).start()
    until(lambda: len(held) == 1)
    log.ended = True
    until(lambda: log.followers == 0)
    time.sleep(0.1)
    gate.release()
    until(lambda: len(held) == 2)
    time.sleep(0.1)
    assert len(log.asked) == 1
    gate.release()
    until(lambda: len(log.asked) == 2)
    api.remove("RayService", "tiny")
    gate.release(100)


def test_a_head_that_is_replaced(api: FakeAPI, logs: dict[str, Log], follow: Follow) -> None:
    logs[HEAD] = Log("old")
    lines = follow("head")
    assert lines.until("old") == [f"[{HEAD}] old"]
    head = api.stored("Pod", HEAD)
    api.remove("Pod", HEAD)
    assert lines.until("waiting") == [f"pod/{HEAD}: head ended", "there is no head of tiny now: waiting"]
    metadata = {"name": "tiny-bcdfg-head-2", "labels": head["metadata"]["labels"]}
    parts = {"kind": "Pod", "metadata": metadata, "spec": head["spec"]}
    api.put(**parts, status={"containerStatuses": [{"name": "ray-head", "state": {"waiting": {}}}]})
    rest: list[str] = []
    reader = threading.Thread(target=lambda: rest.extend(lines.rest()))
    reader.start()
    some_looks(api)  # a container that has not started has no log yet
    logs["tiny-bcdfg-head-2"] = log = Log("new")
    api.put(**parts, status={"containerStatuses": [{"name": "ray-head", "state": {"running": {}}}]})
    until(lambda: log.followers == 1)
    time.sleep(0.1)
    api.remove("RayService", "tiny")
    reader.join()
    assert rest == ["pod/tiny-bcdfg-head-2: new head", "new", "rayservice/tiny was deleted"]


def test_a_second_raycluster(api: FakeAPI, logs: dict[str, Log], follow: Follow) -> None:
    logs |= {"a": Log("a first"), "b": Log("b first")}
    serving(api, models=[replica("a", "w1")])
    lines = follow()
    lines.until("a first")
    service = api.stored("RayService", "tiny")
    pending = {"pendingServiceStatus": {"rayClusterName": "tiny-new"}}
    api.put(kind="RayCluster", metadata={"name": "tiny-new"}, spec={}, status={})
    answer = {"applications": {"tiny": {"deployments": {"LLMServer:tiny": {"replicas": [replica("b", "w9")]}}}}}
    api.answer("GET", "/tiny-new-head-svc:dashboard/proxy/api/serve/applications/$", (200, answer))
    api.update("kuberay", "RayService", "tiny", status={**service["status"], **pending})
    assert lines.until("b first") == ["pod/w9: new replica", "[w9] b first"]
    active = {"activeServiceStatus": {"rayClusterName": "tiny-new"}}
    api.update("kuberay", "RayService", "tiny", status={**service["status"], **active})
    some_looks(api)
    logs["a"].lines.append("a still ends")  # KubeRay deletes the old cluster a minute later
    assert lines.until("still") == ["[w1] a still ends"]
    logs["a"].ended = True
    assert lines.until("ended") == ["pod/w1: replica ended"]


def test_one_pod_until_it_is_gone(api: FakeAPI, logs: dict[str, Log], follow: Follow) -> None:
    logs |= {WORKER: Log("Ray started"), "a": Log("a first"), "b": Log("b first")}
    serving(api, models=[replica("b", "w2")])
    lines = follow(pod=WORKER)
    assert lines.until("started") == [f"[{WORKER}] Ray started"]
    serving(api, models=[replica("b", "w2"), replica("a", WORKER)])
    assert lines.until("a first") == [f"pod/{WORKER}: new replica", f"[{WORKER}/replica_a.log] a first"]
    api.remove("Pod", WORKER)
    assert lines.rest()[-1] == f"pod/{WORKER} is gone"


def test_servers_of_vllm(api: FakeAPI, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfollow, "LOOK_SECONDS", 0.05)
    assert run("deploy", *TINY, *KIND).code == 0
    found = {"tiny-server": Log("one"), "tiny-server-2": Log("two")}
    api.answer("GET", "/pods/[^/]+/log$", lambda request: found[request.path.split("/")[-2]].respond(request))
    lines = Following(api, tmp_path)
    assert lines.until("one") == ["[tiny-server] one"]
    old = api.stored("Pod", "tiny-server")
    labels = {"labels": old["metadata"]["labels"]}
    api.put(kind="Pod", metadata={"name": "tiny-server-2", **labels}, spec=old["spec"], status=old["status"])
    assert lines.until("two") == ["pod/tiny-server-2: new replica", "[tiny-server-2] two"]
    api.remove("RayCluster", "tiny")
    assert lines.rest() == ["raycluster/tiny was deleted"]


def test_failures_on_the_way(
    api: FakeAPI, logs: dict[str, Log], follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs["a"] = Log("a first")
    serving(api, models=[replica("a", "w1")])
    lines = follow()
    lines.until("a first")
    serving(api, models=[replica("a", "w1"), replica("x", "w2")])  # its file does not exist yet
    assert lines.until("not found")[-1] == "replica_x.log of w2 could not be read: a file is not found"
    for word in ("second", "third"):  # it is said once
        some_looks(api)
        logs["a"].lines.append(word)
        assert lines.until(word) == [f"[w1] {word}"]
    failing = status(500, "etcdserver: leader changed", "InternalError")
    api.answer("GET", SERVICE, lambda _: failing, times=5)
    assert lines.until("trying again") == [
        "the API server cannot get RayService llm/tiny now: etcdserver: leader changed: trying again"
    ]
    logs["x"] = Log("x first")
    assert lines.until("x first") == ["[w2] x first"]
    monkeypatch.setattr(cluster_watch, "GRACE_SECONDS", 0.2)
    api.granted = set()
    with pytest.raises(UserError, match=r"not permitted to get rayservices\.ray\.io"):
        lines.rest()


def test_a_log_that_one_may_not_read_is_not_waited_for(api: FakeAPI, logs: dict[str, Log], follow: Follow) -> None:
    message = 'User "alice" cannot get resource "pods/log" in API group "" in the namespace "llm"'
    api.answer("GET", f"/pods/{HEAD}/log$", status(403, message, "Forbidden"))
    logs[HEAD] = Log()
    with pytest.raises(UserError, match="not permitted to get pods/log"):
        follow("head").rest()


def test_lines_go_to_stdout_and_notes_to_stderr(
    run: Run, api: FakeAPI, logs: dict[str, Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfollow, "LOOK_SECONDS", 0.05)
    logs["a"] = Log("one", "two")
    serving(api, models=[replica("a", "w1")])
    threading.Timer(1, lambda: api.remove("RayService", "tiny")).start()
    result = run("logs", "tiny", "-f", "--grep", "two")
    assert (result.code, result.out, result.err) == (0, "[w1] two\n", "rayservice/tiny was deleted\n")
