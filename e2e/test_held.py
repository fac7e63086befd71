"""One service on claimed GPUs whose answers wait until a test releases them: load, losses and changes without races.

Two replicas of four GPUs with the stand-in for an engine, behind two ingresses with a gateway. "Every replica is busy"
is a state that lasts here. Each test leaves the service as it found it, with the replicas that it had.
"""

from __future__ import annotations

import itertools
import json
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
import pytest

from e2e.chats import Chat
from e2e.harness import STAND_IN, Bench, Object, Target, Watched
from e2e.holds import Holds
from e2e.running import Running

pytestmark = [pytest.mark.xdist_group("held"), pytest.mark.incremental]

NAME = "held"
MODEL = "meta-llama/Llama-3.1-70B-Instruct"
SLOTS = 2
"""Answers that a replica writes at a time."""
MAX_PENDING = 4
FIXED: Object = {"min": 2, "max": 2}
ONE: Object = {"min": 1, "max": 1}
SCALED: Object = {
    "min": 1, "max": 2, "upscaleDelay": "2s", "downscaleDelay": "2s", "lookBackPeriod": "5s", "metricsInterval": "1s",
}  # fmt: skip
GATEWAY: Object = {"keys": {"secret": "clients"}, "queue": {"maxPending": MAX_PENDING}}


@dataclass
class Service:
    """The service under test, its address, and a key."""

    bench: Bench
    file: Path
    holds: Holds
    url: str = ""
    key: str = ""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def command(self, replicas: Object = FIXED, gateway: Object = GATEWAY, **args: Any) -> list[str]:
        """Write the spec; the command that deploys it."""
        spec = {
            "models": [{
                "id": MODEL, "path": "/models/tiny", "accelerator": {"gpu": "H100-80GB"}, "parallelism": {"tensor": 4},
                "engine": {"maxNumSeqs": SLOTS, "args": args}, "replicas": {"targetOngoingRequests": SLOTS, **replicas},
                "resources": {"worker": {"cpu": "2", "memory": "3Gi"}},
            }],
            "engine": {"image": self.bench.target.image, "env": STAND_IN},
            "resources": {"ingress": {"cpu": "500m", "memory": "3Gi"}},
            "ray": {"idleTimeout": "10s"},
            # Replicas that end wait as long for their answers: longer than any test holds one.
            "serve": {"http": {"requestTimeout": "600s"}},
            "gateway": gateway,
        }  # fmt: skip
        head = {"apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService", "metadata": {"name": NAME}}
        self.file.write_text(json.dumps({**head, "spec": spec}))
        return ["deploy", "-f", str(self.file), "--offline", "-n", self.bench.namespace]

    def deploy(self, *flags: str, **changes: Any) -> str:
        """Deploy; what the command said."""
        return self.bench.run(*self.command(**changes), *flags).err

    def chat(self, name: str, prompt: str = "Hello", **more: Any) -> Chat:
        return Chat(self.url, MODEL, prompt, name=name, key=self.key, **more)

    def hold(self, *names: str, **more: Any) -> dict[str, Chat]:
        """Requests whose answers wait before their first token, until their own names are released."""
        return {name: self.chat(name, f"HOLD {name}", **more) for name in names}

    def begin(self, *names: str) -> dict[str, Chat]:
        """Streams that wait after their first token: if their replica is lost, they are not sent again."""
        return {name: self.chat(name, f"HOLD {name} AFTER 1", stream=True) for name in names}

    def fill(self) -> dict[str, Chat]:
        """Streams that have begun and wait in both replicas, which take no more."""
        names = [f"full-{next(self._numbers)}" for _ in range(2 * SLOTS)]
        chats = self.begin(*names)
        self.holds.wait(*names)
        return chats

    def new_key(self, name: str) -> str:
        made = self.bench.run("keys", "create", "--secret", "clients", "--key-name", name, "-n", self.bench.namespace)
        return made.out.strip()

    def client(self, key: str) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=120)

    def knows(self, key: str) -> bool:
        try:
            return bool(self.client(key).models.list().data)
        except openai.AuthenticationError:
            return False

    def queue(self) -> dict[str, Any]:
        asked = urllib.request.Request(f"{self.url}/queue", headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            figures: dict[str, Any] = json.load(answer)
        return figures

    def settles(self, **figures: int) -> None:
        """Wait until the queue has these figures."""
        seen: dict[str, Any] = {}

        def as_expected() -> bool:
            seen.update(self.queue())
            return {name: seen[name] for name in figures} == figures

        try:
            self.bench.wait("the queue", as_expected, timeout=180, pause=0.3)
        except AssertionError as error:
            raise AssertionError(f"{error}: {figures}; seen: {seen}") from error

    def replicas(self) -> dict[str, str]:
        """The state of each replica of the engine, by its id."""
        return {one["replica_id"]: one["state"] for one in self._served(lambda name: name != "OpenAiIngress")}

    def running(self) -> set[str]:
        """The ids of the replicas of the engine that run."""
        return {replica for replica, state in self.replicas().items() if state == "RUNNING"}

    def _served(self, chosen: Callable[[str], bool]) -> list[Object]:
        (cluster,) = self.bench.items("rayclusters")
        served = json.loads(self.bench.serve_answer(cluster["metadata"]["name"]))
        deployments = [found for app in served["applications"].values() for found in app["deployments"].items()]
        return [one for name, deployment in deployments if chosen(name) for one in deployment["replicas"]]

    def workers(self) -> dict[str, int]:
        """The GPUs of each pod that has some, by its name; not of those that end."""
        pods = self.bench.items("pods", "ray.io/node-type=worker")
        return {
            pod["metadata"]["name"]: count
            for pod in pods if "deletionTimestamp" not in pod["metadata"] and (count := gpus(pod))
        }  # fmt: skip

    def access_logs(self) -> dict[str, list[Object]]:
        """What the ingresses logged of their chat requests, by pod."""
        logs = {}
        for pod in self.bench.items("pods", "ray.io/group=ingress"):
            name = pod["metadata"]["name"]
            # A pod without a replica (a third one that is about to be scaled down, one that starts) has no such log.
            command = "find /tmp/ray/session_latest/logs/serve/ -name 'replica_*OpenAiIngress*.log' -exec cat {} +"
            log = self.bench.kubectl(
                "exec", name, "-c", "ray-worker", "-n", self.bench.namespace, "--", "sh", "-c", command, check=False
            )
            lines = [line for line in log.splitlines() if '"request_id"' in line and '"route"' in line]
            found = [json.loads(line[line.index('{"time"') :]) for line in lines]
            logs[name] = [line for line in found if line["route"] == "/v1/chat/completions"]
        return logs

    def logged(self, request: str) -> Object:
        """The line of one request, when it is there: the log is written in blocks."""

        def line() -> Object | None:
            lines = [one for lines in self.access_logs().values() for one in lines if one["request_id"] == request]
            return lines[-1] if lines else None

        found: Object = self.bench.wait(f"the log of {request}", line, timeout=60)
        return found


def gpus(pod: Object) -> int:
    limits = [box.get("resources", {}).get("limits", {}) for box in pod["spec"]["containers"]]
    return sum(int(limit.get("nvidia.com/gpu", 0)) for limit in limits)


def answered(chats: dict[str, Chat]) -> dict[str, bool]:
    """Whether each request has a complete answer; waits for all responses."""
    return {name: chat.answer().complete for name, chat in chats.items()}


@pytest.fixture(scope="module")
def service(claimed: Target, shared: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    assert shared.target is claimed
    made = Service(shared, tmp_path_factory.mktemp("held") / "spec.json", Holds(shared))
    made.key = made.new_key("tests")
    made.deploy()
    with shared.reached(NAME) as made.url:
        shared.wait("the key is known", lambda: made.knows(made.key), timeout=180)
        yield made


def test_replicas_of_four_gpus_answer(service: Service) -> None:
    assert sorted(service.workers().values()) == [4, 4]
    answer = service.chat("first", max_tokens=12).answer()
    assert answer.complete, answer
    assert len(json.loads(answer.text)["choices"][0]["message"]["content"].split()) >= 3


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_disconnects_frees_its_place(service: Service, stream: bool) -> None:
    """Of one that is being answered the engine hears, and one that waits leaves the queue."""
    kind = "stream" if stream else "whole"
    running, waiting = f"left-running-{kind}", f"left-waiting-{kind}"
    (leaver,) = service.hold(running, stream=stream).values()
    service.holds.wait(running)
    service.settles(running=1)
    leaver.leave()
    service.holds.wait()
    service.settles(running=0)
    assert service.logged(running)["outcome"] == "disconnected"

    full = service.fill()
    late = service.chat(waiting, stream=stream)
    service.settles(running=2 * SLOTS, pending=1)
    late.leave()
    service.settles(running=2 * SLOTS, pending=0)
    service.holds.release(*full)
    assert answered(full) == dict.fromkeys(full, True)
    assert service.logged(waiting)["outcome"] == "disconnected"


def test_the_bound_of_the_queue_holds_over_both_ingresses(service: Service) -> None:
    """With all replicas busy as many requests wait as may, each further one is rejected, and none of the others is.

    The clients of the tests before have left: a place that one of them kept would be missing here.
    """
    full = service.fill()
    service.settles(running=2 * SLOTS, pending=0, replicas=2, maxPending=MAX_PENDING)
    waiting: dict[str, Chat] = {}
    rejected: dict[str, Chat] = {}

    def send(number: int) -> None:
        """One more, until it waits or has its answer. Which ingress it gets to is chance."""
        chat = service.chat(f"queued-{number}")

        def settled() -> bool:
            return chat.begun() or service.queue()["pending"] == len(waiting) + 1

        service.bench.wait("it waits, or is rejected", settled, timeout=120, pause=0.1)
        (rejected if chat.begun() else waiting)[chat.name] = chat

    sent = 0
    while len(waiting) < MAX_PENDING:
        assert sent < 60, "no ingress takes as many as it may"
        send(sent)
        sent += 1
    for number in range(sent, sent + 6):
        send(number)
    assert len(waiting) == MAX_PENDING
    for chat in rejected.values():
        answer = chat.answer()
        assert (answer.status, answer.code) == (503, "queue_full"), answer
        assert int(answer.headers["Retry-After"]) >= 1
    service.settles(running=2 * SLOTS, pending=MAX_PENDING)
    service.holds.release(*full)
    everyone = {**full, **waiting}
    assert answered(everyone) == dict.fromkeys(everyone, True)
    service.settles(running=0, pending=0)
    for name in everyone:
        assert service.logged(name)["outcome"] == "ok"
    of_each = {pod: len(lines) for pod, lines in service.access_logs().items()}
    assert len(of_each) == 2
    assert all(of_each.values()), of_each


def test_a_key_that_is_revoked_ends_no_response_and_begins_none(service: Service) -> None:
    key = service.new_key("brief")
    service.bench.wait("the key is known", lambda: service.knows(key), timeout=180)
    begun = Chat(service.url, MODEL, "HOLD revoked AFTER 1", name="revoked", key=key, stream=True)
    service.holds.wait("revoked")
    service.bench.run("keys", "revoke", "--secret", "clients", "--key-name", "brief", "-n", service.bench.namespace)
    service.bench.wait("the key is not valid", lambda: not service.knows(key), timeout=180)
    assert Chat(service.url, MODEL, "Hello", name="late", key=key).answer().status == 401
    service.holds.wait("revoked")
    service.holds.release("revoked")
    assert begun.answer().complete


def test_settings_change_in_place(service: Service) -> None:
    """A request that is being answered meanwhile is finished as it began; the next ones have the new limit."""
    before = service.replicas()
    held = service.hold("settings", max_tokens=20)
    service.holds.wait("settings")

    def tokens() -> int:
        answer = service.chat("limited", max_tokens=20).answer()
        assert answer.complete, answer
        return int(json.loads(answer.text)["usage"]["completion_tokens"])

    service.deploy(gateway={**GATEWAY, "validation": {"outputTokens": {"max": 7}}})
    service.bench.wait("the limit", lambda: tokens() == 7, timeout=180)
    service.holds.wait("settings")
    service.holds.release("settings")
    assert json.loads(held["settings"].answer().text)["usage"]["completion_tokens"] == 20
    service.deploy()
    service.bench.wait("no limit", lambda: tokens() == 20, timeout=180)
    assert service.replicas() == before


def test_a_drained_worker_finishes_its_answers(service: Service) -> None:
    """The pod of one replica is evicted while both are full: it stays until its answers are written."""
    evicted = sorted(service.workers())[0]
    full = service.fill()

    def may_go() -> bool:
        budgets = service.bench.items("poddisruptionbudgets")
        return all(one.get("status", {}).get("disruptionsAllowed") for one in budgets)

    service.bench.wait("the budgets know the pods", may_go, timeout=180)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": evicted}}
    path = f"/api/v1/namespaces/{service.bench.namespace}/pods/{evicted}/eviction"
    service.bench.kubectl("create", "--raw", path, "-f", "-", input_text=json.dumps(eviction))
    service.bench.wait("its replica ends", lambda: "STOPPING" in service.replicas().values(), timeout=300)
    pod = service.bench.get("pod", evicted)["metadata"]
    assert pod["deletionGracePeriodSeconds"] > 30, "answers take longer than what Kubernetes gives a pod by default"
    service.holds.wait(*full)
    service.holds.release(*full)
    assert answered(full) == dict.fromkeys(full, True)

    def replaced() -> bool:
        return len(service.running()) == 2 and evicted not in service.workers()

    service.bench.wait("another worker serves", replaced, timeout=300)


def test_a_model_loses_and_gets_a_replica_and_no_request_is_lost(service: Service) -> None:
    """The replica that goes writes its answers first, and those that come meanwhile go to the other."""
    full = service.fill()
    service.deploy("--no-wait", replicas=ONE)
    service.bench.wait("one replica ends", lambda: "STOPPING" in service.replicas().values(), timeout=180)
    assert sum(map(len, service.holds.held().values())) == 2 * SLOTS
    late = service.chat("late-for-one")
    service.settles(pending=1)
    service.holds.release(*full)
    everyone = {**full, late.name: late}
    assert answered(everyone) == dict.fromkeys(everyone, True)
    service.bench.wait("one worker", lambda: sorted(service.workers().values()) == [4], timeout=300)


def test_load_scales_to_two_groups_of_four_gpus_and_back(service: Service) -> None:
    service.deploy(replicas=SCALED)
    with Watched(service.bench, NAME) as watched:
        names = [f"load-{number}" for number in range(SLOTS + MAX_PENDING // 2)]
        load = service.hold(*names)
        # What one replica does not take waits until there are two.
        service.holds.wait(*names)
        assert sorted(service.workers().values()) == [4, 4]
        service.bench.wait("two replicas are reported", lambda: watched.running[-1] == 2, timeout=180)
        service.holds.release(*names)
        assert answered(load) == dict.fromkeys(load, True)
        service.bench.wait("one replica is reported", lambda: watched.running[-1] == 1, timeout=300)
        service.bench.wait("one worker", lambda: sorted(service.workers().values()) == [4], timeout=300)
    assert watched.running == [1, 2, 1]
    print(watched.notes)
    engine = f"autoscaling: LLMServer:{MODEL.replace('/', '--').replace('.', '_')}"
    assert f"{engine} 1 → 2 replicas: " in watched.notes, watched.notes
    assert f"{engine} 2 → 1 replicas: " in watched.notes, watched.notes
    assert f"target {SLOTS} per replica, 1 to 2 replicas, trigger " in watched.notes


def test_with_one_more_replica_an_engine_argument_changes_without_a_lost_request(service: Service) -> None:
    """One more replica starts, the old one writes its answers and is replaced, and the service has its bounds again."""
    service.deploy(replicas=ONE)
    (old,) = service.running()
    held = service.begin("surge-1", "surge-2")
    service.holds.wait(*held)
    changing = service.bench.start(*service.command(replicas=ONE, enable_prefix_caching=False))
    service.bench.wait("the old replica ends", lambda: service.replicas().get(old) == "STOPPING", timeout=300)
    assert service.chat("meanwhile").answer().complete
    service.holds.wait(*held)
    service.holds.release(*held)
    assert answered(held) == dict.fromkeys(held, True)
    _, err = changing.communicate(timeout=400)
    assert changing.returncode == 0, err
    assert "surge: " in err, err
    assert old not in service.replicas()
    assert service.bench.run("diff", *service.command(replicas=ONE, enable_prefix_caching=False)[1:]).code == 0
    service.bench.wait("one worker", lambda: sorted(service.workers().values()) == [4], timeout=300)


def test_a_killed_replica_costs_the_streams_that_had_begun_and_no_other_request(service: Service) -> None:
    service.deploy(replicas=FIXED, enable_prefix_caching=False)
    service.bench.wait("two replicas", lambda: len(service.running()) == 2, timeout=300)
    begun = service.begin(*(f"stream-{number}" for number in range(2 * SLOTS - 1)))
    service.holds.wait(*begun)
    whole = service.hold("whole")
    service.holds.wait(*begun, "whole")
    # Whatever went where: the replica with the request that has no answer yet has one of the streams, too.
    killed, lost = next((pod, names) for pod, names in service.holds.held().items() if "whole" in names)
    assert len(lost) == SLOTS, lost
    service.bench.kubectl(
        "exec", killed, "-c", "ray-worker", "-n", service.bench.namespace, "--", "pkill", "-KILL", "-f",
        "^ray::ServeReplica",
    )  # fmt: skip
    broken = {name: begun.pop(name) for name in lost if name != "whole"}
    for name, chat in broken.items():
        answer = chat.answer()
        assert not answer.complete, name
        assert '"finish_reason":null' in answer.text
        assert '"code":"replica_lost"' in answer.text
    # The other replica is full, so what is sent again waits for a new one.
    service.holds.wait(*begun, "whole")
    everyone = {**begun, **whole}
    service.holds.release(*everyone)
    assert answered(everyone) == dict.fromkeys(everyone, True)
    retries = Counter({name: service.logged(name).get("retries", 0) for name in (*everyone, *broken)})
    assert +retries == Counter(["whole"])


def test_a_deletion_waits_for_the_answers_that_are_being_written(service: Service) -> None:
    full = service.fill()
    deleting = Running(service.bench, "delete", NAME, "-n", service.bench.namespace)
    deleting.says("to answer their last requests")
    service.holds.wait(*full)
    service.holds.release(*full)
    assert answered(full) == dict.fromkeys(full, True)
    code, err = deleting.ended()
    assert code == 0, err
    assert service.bench.items("pods", "ray.io/cluster") == []
