"""API keys: created, listed and revoked in a Secret, and what `deploy` says of the Secrets of a gateway."""

from __future__ import annotations

import base64
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cluster import connect
from rayllm_ctl.cluster.apply import api_keys as apikeys
from rayllm_ctl.model.spec.api_keys import keys_of
from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI

SECRET = ("--secret", "chat-keys", "-n", "llm")
SPEC = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: chat, namespace: llm}
spec:
  model: {id: tiny, path: /models/tiny}
  engine: {image: example.com/gateway:1, maxModelLen: 1024}
  accelerator: {kind: cpu}
"""
KEYS = SPEC + "  gateway: {keys: {}}\n"
LIMITS = SPEC + "  gateway: {keys: {}, limits: {redis: {managed: true}}}\n"


def entry(api: FakeAPI, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.b64decode(api.stored("Secret", "chat-keys")["data"][name]))
    return found


def deployed(run: Run, folder: Path, text: str, code: int = 0) -> str:
    spec = folder / "chat.yaml"
    spec.write_text(text, encoding="utf-8")
    result = run("apply", "-f", str(spec), "--offline")
    assert result.code == code, str(result)
    return result.err


def test_a_key_is_printed_once_and_only_its_hash_is_stored(run: Run, api: FakeAPI) -> None:
    made = run("keys", "create", *SECRET, "--key-name", "alice", "--models", "a/b", "--models", "c",
               "--expires", "2099-01-31", "--requests", "60/minute")  # fmt: skip
    assert made.code == 0, made.err
    key = made.out.removesuffix("\n")
    assert len(key) >= 50
    assert entry(api, "alice") | {"created": ""} == {
        "sha256": hashlib.sha256(key.encode()).hexdigest(),
        "models": ["a/b", "c"],
        "limits": {"requests": "60/minute", "tokens": None},
        "expires": "2099-01-31T00:00:00Z",
        "created": "",
    }
    sent = "".join(f"{one.path}{one.body!r}" for one in api.requests)
    assert key not in sent + made.err
    assert base64.b64encode(key.encode()).decode() not in sent
    other = run("keys", "create", *SECRET, "--key-name", "bob", "-o", "json")
    found = json.loads(other.out)
    assert entry(api, "bob")["sha256"] == hashlib.sha256(found["key"].encode()).hexdigest()
    assert (found["name"], found["secret"], found["expires"]) == ("bob", "chat-keys", None)
    again = run("keys", "create", *SECRET, "--key-name", "bob")
    assert again.code == 4
    assert again.out == ""
    assert "rayllm-ctl keys revoke --secret chat-keys -n llm --key-name bob" in again.err

    listed = run("keys", "list", *SECRET)
    header, alice, bob = listed.out.splitlines()
    assert header.split() == ["NAME", "CREATED", "EXPIRES", "MODELS", "LIMITS"]
    assert alice.split()[2:] == ["2099-01-31T00:00:00Z", "a/b,", "c", "60/minute", "requests"]
    assert bob.split()[2:] == ["never", "all", "as", "the", "gateway's"]
    everything = listed.out + run("keys", "list", *SECRET, "-o", "json").out
    assert not any(entry(api, name)["sha256"][:16] in everything for name in ("alice", "bob"))

    assert run("keys", "revoke", *SECRET, "--key-name", "alice").code == 0
    assert run("keys", "list", *SECRET, "-o", "name").out == "bob\n"
    gone = run("keys", "revoke", *SECRET, "--key-name", "bobb")
    assert gone.code == 1
    assert "hint: --key-name bob" in gone.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--key-name", "..data"), '"..data" is not a valid name of a key'),
        (("--key-name", "a/b"), '"a/b" is not a valid name of a key'),
        (("--key-name", "a", "--requests", "60"), '"60" is not a rate, such as 60/minute'),
        (("--key-name", "a", "--tokens", "0/hour"), '"0/hour" is not a rate'),
        (("--key-name", "a", "--models", "a b"), '"a b" is not a valid model name'),
        (("--key-name", "a", "--expires", "2020-01-01"), "the key would have expired at 2020-01-01T00:00:00Z"),
        (("--key-name", "a", "--expires", "soon"), '"soon" is not a time, such as 2027-01-31'),
        ((), "--key-name"),
    ],
)
def test_nothing_is_asked_of_the_cluster_for_invalid_keys(
    run: Run, api: FakeAPI, arguments: tuple[str, ...], message: str
) -> None:
    result = run("keys", "create", *SECRET, *arguments)
    assert result.code == 2
    assert message in result.err
    assert api.requests == []


def test_keys_of_a_service(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    assert "keys create --secret chat-keys" in run("keys", "create", "chat", "--key-name", "a", "-n", "llm").err
    warned = deployed(run, tmp_path, KEYS)
    missing = "all requests are rejected until rayllm-ctl keys create --secret chat-keys --key-name NAME -n llm"
    assert f"API keys: Secret llm/chat-keys does not exist: {missing}" in warned
    volumes = [{"name": "api-keys", "secret": {"secretName": "chat-keys"}}]
    for name, mounted in (("front", volumes), ("back", [])):
        labels = {"rayllm.io/service": "chat"}
        api.put(kind="Pod", metadata={"name": name, "labels": labels}, spec={"volumes": mounted})
    wrong = run("keys", "create", "chat", "-n", "llm", "--key-name", "a", "--models", "tony", "--tokens", "9/day")
    assert wrong.code == 2
    assert 'service chat serves no model "tony", but tiny' in wrong.err
    assert "hint: --models tiny" in wrong.err
    assert "the gateway of service chat enforces no limits" in wrong.err
    made = run("keys", "create", "chat", "-n", "llm", "--key-name", "a", "--models", "tiny")
    assert made.code == 0, made.err
    assert "the key is valid within a few seconds" in made.err
    assert "rayllm.io/keys-changed" in api.stored("Pod", "front")["metadata"]["annotations"]
    assert "annotations" not in api.stored("Pod", "back")["metadata"]
    assert "API keys" not in deployed(run, tmp_path, KEYS)
    deployed(run, tmp_path, SPEC + "  gateway: {}\n")
    assert "does not require API keys" in run("keys", "list", "chat", "-n", "llm").err
    deployed(run, tmp_path, SPEC)
    assert "has no gateway" in run("keys", "list", "chat", "-n", "llm").err


def test_rights(run: Run, api: FakeAPI) -> None:
    secrets = {(verb, "secrets", False) for verb in ("get", "create", "patch")}
    api.granted = {*secrets}
    made = run("keys", "create", *SECRET, "--key-name", "a")
    assert made.code == 0
    assert "within 90 s" in made.err
    assert "not permitted to list pods, patch pods" in made.err
    api.granted = secrets - {("patch", "secrets", False)}
    denied = run("keys", "create", *SECRET, "--key-name", "b")
    assert denied.code == 5
    assert "not permitted to patch secrets in namespace llm" in denied.err
    assert denied.out == ""


def test_everyone_who_creates_a_key_at_the_same_time_gets_one(
    run: Run, api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apikeys, "_PAUSE", 0.01)
    cluster = connect()
    with ThreadPoolExecutor(8) as pool:
        done = list(
            pool.map(lambda n: apikeys.add_entry(cluster, "chat-keys", "llm", f"key-{n % 12}", "{}"), range(24))
        )
    assert sum(done) == 12
    assert [key.name for key in keys_of(api.stored("Secret", "chat-keys"))] == sorted({f"key-{n}" for n in range(12)})
    assert {key.problem for key in keys_of(api.stored("Secret", "chat-keys"))} == {"not an entry of rayllm-ctl keys"}


def test_deploy_makes_the_password_of_a_managed_redis_once(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    said = deployed(run, tmp_path, LIMITS)
    assert "secret/chat-redis created" in said
    password = base64.b64decode(api.stored("Secret", "chat-redis")["data"]["password"]).decode()
    assert len(password) >= 40
    assert password not in said + "".join(str(one.body) for one in api.requests)
    assert "secret/chat-redis unchanged" in deployed(run, tmp_path, LIMITS)
    assert base64.b64decode(api.stored("Secret", "chat-redis")["data"]["password"]).decode() == password
    assert api.names("Deployment") == ["chat-redis", "kuberay-operator"]
    assert run("delete", "chat", "-n", "llm", "--no-wait").code == 0
    assert api.names("Deployment") == ["kuberay-operator"]
    assert api.names("Secret") == ["chat-redis"]


def test_deploy_requires_the_secret_of_a_given_redis(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    given = LIMITS.replace("managed: true", "url: 'redis://r:6379', passwordSecret: {name: auth, key: pw}")
    said = deployed(run, tmp_path, given, code=1)
    assert "Secret llm/auth with the password of the gateway's Redis does not exist: no pod could start" in said
    api.put(kind="Secret", metadata={"name": "auth"}, data={"other": ""})
    assert "has no key pw" in deployed(run, tmp_path, given, code=1)
    assert api.names("RayService") == []
    api.put(kind="Secret", metadata={"name": "auth"}, data={"pw": ""})
    deployed(run, tmp_path, given)
