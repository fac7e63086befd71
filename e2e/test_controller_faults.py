"""The controller behind a proxy that ends it at each of its requests, or answers in place of the API server: the end is
the same, and nothing is made twice. On simulated nodes."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.controllers import CHART, CRDS, Declared, tiny_spec
from e2e.counting import Counting, counting
from e2e.harness import Bench, Object, Target
from e2e.running_controller import WRITE, Running, is_write
from e2e.simulated import schedule_on_simulated_nodes

pytestmark = [pytest.mark.xdist_group("controller"), pytest.mark.slow]

_WATCH = re.compile(r"[?&]watch=")
_MOST = 120
"""Requests after which a controller that begins anew each time has long done its work."""


@pytest.fixture(scope="module")
def place(simulated_nodes: Target, shared: Bench) -> Iterator[Bench]:
    """A namespace on simulated nodes, and the definitions of the chart, which are taken away at the end."""
    assert shared.target is simulated_nodes
    schedule_on_simulated_nodes(shared)
    template = (CHART / "templates" / "crds.yaml").read_text()
    definitions = "".join(line for line in template.splitlines(True) if not line.startswith("{{"))
    shared.kubectl("apply", "--server-side", "-f", "-", input_text=definitions)
    shared.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in CRDS), "--timeout=60s")
    yield shared
    shared.kubectl("delete", "crd", *CRDS, "--timeout=100s")


def changes(service: Declared, spec: Object) -> dict[str, Callable[[], object]]:
    """A service is made, changed beside the one that runs, and changed at a price that is accepted."""

    def accepted() -> None:
        generation = service.apply({**spec, "engine": {**spec["engine"], "maxNumSeqs": 4}})
        service.bench.kubectl(
            "annotate", "llms", service.name, f"rayllm.io/accept={generation}", "--overwrite",
            "-n", service.bench.namespace,
        )  # fmt: skip

    return {
        "create": lambda: service.apply(spec),
        "change": lambda: service.apply({**spec, "engine": {**spec["engine"], "args": {"seed": 7}}}),
        "accept": accepted,
    }


def state(service: Declared) -> dict[str, Object]:
    """What there is in the end, without what differs from run to run."""
    kinds = "rayservices,configmaps,controllerrevisions.apps,poddisruptionbudgets"
    found = {}
    for item in service.bench.items(kinds):
        name = item["metadata"]["name"].replace(service.name, "NAME")
        content = {key: value for key, value in item.items() if key in ("spec", "data", "revision")}
        found[f"{item['kind']}/{name}"] = json.loads(json.dumps(content).replace(service.name, "NAME"))
    found.pop("ConfigMap/kube-root-ca.crt", None)
    found["conditions"] = {"all": [[one["type"], one["status"], one["reason"]] for one in service.status["conditions"]]}
    found["clusters"] = {
        "count": len(service.bench.items("rayclusters", f"ray.io/originated-from-cr-name={service.name}"))
    }
    return found


def cleared(service: Declared) -> None:
    """Delete the service, and wait until nothing of it is left."""
    service.delete()
    service.bench.wait("all that it owned is gone", lambda: not service.left(), timeout=180)


def undisturbed(place: Bench, folder: Path, spec: Object) -> dict[str, Object]:
    """The end of a service that nothing disturbed."""
    service = Declared(place, "calm")
    with counting(place, folder) as (bench, _):
        running = Running(bench, 18081)
        for change in changes(service, spec).values():
            change()
            service.settled()
        running.end()
    found = state(service)
    cleared(service)
    return found


@pytest.fixture(scope="module")
def spec(place: Bench) -> Object:
    return tiny_spec(place, "calm") | {"replicas": {"count": 1}}


@pytest.fixture(scope="module")
def expected(place: Bench, spec: Object, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Object]:
    return undisturbed(place, tmp_path_factory.mktemp("calm"), spec)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_controller_that_is_killed_at_each_request_ends_where_another_does(
    place: Bench, spec: Object, expected: dict[str, Object], tmp_path: Path, when: str
) -> None:
    service = Declared(place, f"cut-{when}")
    for name, change in changes(service, spec).items():
        change()
        with counting(place, tmp_path) as (bench, proxy):
            killed = killed_at_each(bench, proxy, when, service)
        print(f"{name}, killed {when}: {len(killed)} times, at {sum(bool(WRITE.match(one)) for one in killed)} writes")
        assert any(WRITE.match(one) for one in killed), killed
    assert state(service) == expected
    cleared(service)


def killed_at_each(bench: Bench, proxy: Counting, when: str, service: Declared) -> list[str]:
    """Kill the controller at its first request, the next one at its second, and so on until one is done before."""
    killed: list[str] = []
    for number in range(_MOST):
        running = Running(bench, 18082)
        count, dead = 0, threading.Event()
        lock = threading.Lock()

        def at(request: str, running: Running = running, number: int = number, dead: threading.Event = dead,
               lock: threading.Lock = lock) -> None:  # fmt: skip
            nonlocal count
            if dead.is_set():
                raise OSError("killed")
            if _WATCH.search(request):
                return
            with lock:
                count += 1
                if count <= number or dead.is_set():
                    return
                dead.set()
            killed.append(request.partition("?")[0])
            running.kill()
            if when == "before":
                raise OSError("killed")

        proxy.before, proxy.after = (at, _pass) if when == "before" else (_pass, at)
        done = _until(lambda dead=dead: dead.is_set() or service.is_settled(), 240)  # type: ignore[misc]
        proxy.before = proxy.after = _pass
        running.end()
        assert done, running.said
        if not dead.is_set():
            return killed
    raise AssertionError(f"still asking after {killed}")


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.2)
    return False


def _pass(_request: str) -> None:
    """Leave it."""


FAULTS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError"}


@pytest.mark.parametrize("code", FAULTS)
def test_each_request_is_answered_with_an_error_once(
    place: Bench, spec: Object, expected: dict[str, Object], tmp_path: Path, code: int
) -> None:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": FAULTS[code]}

    def fault(request: str, _seen: set[str]) -> tuple[int, Object] | None:
        # The API server gives a 409 to writes alone, and a 410 to lists and watches.
        if (code == 409 and not WRITE.match(request)) or (code == 410 and WRITE.match(request)):
            return None
        return code, {**status, "message": f"injected for {request.partition('?')[0]}"}

    service = Declared(place, f"fault-{code}")
    with disturbed(place, tmp_path, fault) as seen:
        for change in changes(service, spec).values():
            seen.clear()
            change()
            service.settled(timeout=400)
            assert any(WRITE.match(one) for one in seen), seen
    assert state(service) == expected
    cleared(service)


def test_each_write_is_held_up_for_30_seconds_once(
    place: Bench, spec: Object, expected: dict[str, Object], tmp_path: Path
) -> None:
    def stall(request: str, _seen: set[str]) -> tuple[int, Object] | None:
        if WRITE.match(request):
            threading.Event().wait(30)
        return None

    service = Declared(place, "stalled")
    with disturbed(place, tmp_path, stall) as seen:
        for change in changes(service, spec).values():
            seen.clear()
            change()
            service.settled(timeout=580)
    assert state(service) == expected
    cleared(service)


@contextmanager
def disturbed(
    place: Bench, folder: Path, fault: Callable[[str, set[str]], tuple[int, Object] | None]
) -> Iterator[set[str]]:
    """A controller of whose requests the first of each kind is disturbed; the requests that were."""
    seen: set[str] = set()
    lock = threading.Lock()

    def instead(request: str) -> tuple[int, Object] | None:
        if "selfsubject" in request:
            return None
        method, _, path = request.partition(" ")
        kind = f"{method} {path.partition('?')[0]}{'?watch' if _WATCH.search(path) else ''}"
        with lock:
            if kind in seen:
                return None
            seen.add(kind)
        return fault(request, seen)

    with counting(place, folder) as (bench, proxy):
        proxy.instead = instead
        running = Running(bench, 18083)
        try:
            yield seen
        except AssertionError as error:
            raise AssertionError(f"{error}\n{running.said}") from None
        finally:
            running.end()


def test_two_controllers_at_once_write_nothing_when_nothing_changes(
    place: Bench, spec: Object, expected: dict[str, Object], tmp_path: Path
) -> None:
    """As when a Lease was taken from a process that does not know it yet."""
    service = Declared(place, "two")
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    with counting(place, folders[0]) as (one, first), counting(place, folders[1]) as (other, second):
        both = [Running(one, 18084), Running(other, 18085)]
        for change in changes(service, spec).values():
            change()
            service.settled(timeout=300)
        before = [running.reconciled() for running in both]
        for proxy in (first, second):
            proxy.requests.clear()
        for number in range(5):
            place.kubectl("annotate", "llms", service.name, f"seen={number}", "--overwrite", "-n", place.namespace)
            # Each looks at it again because of that.
            place.wait(
                "both have looked at it",
                lambda: all(now.reconciled() > then for now, then in zip(both, before, strict=True)),  # noqa: B023
                timeout=60,
            )
            before = [running.reconciled() for running in both]
        for running in both:
            running.end()
        written = [one for proxy in (first, second) for one in list(proxy.requests) if is_write(one)]
    assert written == []
    assert state(service) == expected
    cleared(service)
