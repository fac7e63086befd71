from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rayllm_ctl.cluster.api.kubeconfig import choose, find_files
from rayllm_ctl.errors import UsageError


def write(path: Path, contexts: dict[str, Any], current: str | None = None, **users: Any) -> Path:
    content: dict[str, Any] = {
        "contexts": [{"name": name, "context": context} for name, context in contexts.items()],
        "clusters": [{"name": "c", "cluster": {"server": f"https://{path.stem}", "certificate-authority": "ca.crt"}}],
        "users": [{"name": name, "user": user} for name, user in users.items()],
    }
    if current:
        content["current-context"] = current
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(content))
    return path


def test_the_first_file_chooses_the_context_and_the_first_entry_of_a_name_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "first", {"prod": {"cluster": "c"}}, "prod")
    second = write(tmp_path / "second", {"prod": {"cluster": "elsewhere"}, "dev": {"cluster": "c"}}, "dev")
    chosen = choose([first, second], None)
    assert (chosen.context, chosen.cluster["server"]) == ("prod", "https://first")


def test_context_of_a_later_file_and_its_namespace(tmp_path: Path) -> None:
    first = write(tmp_path / "first", {"prod": {"cluster": "c"}}, "prod")
    second = write(tmp_path / "second", {"dev": {"cluster": "c", "namespace": "llm"}})
    assert choose([first, second], "dev").namespace == "llm"
    assert choose([first, second], None).namespace == "default"


def test_relative_paths_are_those_of_the_file(tmp_path: Path) -> None:
    user = {"client-certificate": "a.crt", "tokenFile": "../token", "exec": {"command": "./plugin", "apiVersion": "v1"}}
    file = write(tmp_path / "deep" / "config", {"prod": {"cluster": "c", "user": "u"}}, "prod", u=user)
    chosen = choose([file], None)
    folder = tmp_path / "deep"
    assert chosen.cluster["certificate-authority"] == str(folder / "ca.crt")
    assert chosen.user["client-certificate"] == str(folder / "a.crt")
    assert chosen.user["tokenFile"] == str(tmp_path / "token")
    assert chosen.user["exec"]["command"] == str(folder / "plugin")


def test_a_plugin_on_the_path_stays_a_name(tmp_path: Path) -> None:
    user = {"exec": {"command": "aws", "apiVersion": "v1"}}
    file = write(tmp_path / "config", {"prod": {"cluster": "c", "user": "u"}}, "prod", u=user)
    assert choose([file], None).user["exec"]["command"] == "aws"


def test_unknown_context_names_the_nearest(tmp_path: Path) -> None:
    file = write(tmp_path / "config", {"production": {"cluster": "c"}, "staging": {"cluster": "c"}}, "production")
    with pytest.raises(UsageError) as caught:
        choose([file], "prodution")
    assert 'no context "prodution"' in caught.value.message
    assert caught.value.hints == ("did you mean --context production?", "contexts: production, staging")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("context", "problem"),
    [
        ({"cluster": "gone"}, 'names cluster "gone", which does not exist'),
        ({"cluster": "c", "user": "gone"}, 'names user "gone", which does not exist'),
        ({}, 'names cluster "", which does not exist'),
    ],
)
def test_dangling_names(tmp_path: Path, context: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        choose([write(tmp_path / "config", {"prod": context}, "prod")], None)


@pytest.mark.parametrize(
    ("server", "usable"),
    [
        ("https://k8s.example:6443", True),
        ("http://127.0.0.1:8080/k8s", True),
        ("https://[::1]:6443", True),
        ("localhost:8080", True),
        ("not an address", False),
        ("https://", False),
        ("ftp://k8s.example", False),
        ("https://k8s.example:99999", False),
        ("https://[::1", False),
    ],
)
def test_a_server_that_is_no_address_is_a_usage_error(tmp_path: Path, server: str, usable: bool) -> None:
    file = write(tmp_path / "config", {"prod": {"cluster": "c"}}, "prod")
    content = json.loads(file.read_text())
    content["clusters"][0]["cluster"]["server"] = server
    file.write_text(json.dumps(content))
    if usable:
        assert choose([file], None).cluster["server"] == server
        return
    with pytest.raises(UsageError, match="is not the address of an API server") as caught:
        choose([file], None)
    assert caught.value.hints == ("kubectl config view --minify --context prod",)


def test_no_current_context(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no current context"):
        choose([write(tmp_path / "config", {"prod": {"cluster": "c"}})], None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("users:\n  - name: [s3cret", "line 2 is not valid YAML"),
        ("- s3cret", "has no clusters, contexts and users"),
        ("users: s3cret", "users is not a list of name and user"),
        ("users: [s3cret]", "users is not a list of name and user"),
        ("users: [{name: a, user: s3cret}]", "users is not a list of name and user"),
        ("", "no current context"),
    ],
)
def test_malformed_files_are_named_without_their_content(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        choose([file], None)
    assert problem in caught.value.message
    assert str(file) in caught.value.message
    assert "s3cret" not in caught.value.message + "".join(caught.value.hints)


def test_binary_and_unreadable_files(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not text"):
        choose([binary], None)
    with pytest.raises(UsageError, match="Is a directory"):
        choose([tmp_path], None)


def test_files_are_found_by_flag_environment_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, home = tmp_path / "one", tmp_path / "two", tmp_path / ".kube" / "config"
    home.parent.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for file in (one, two, home):
        file.touch()
    assert find_files(None) == [home]
    monkeypatch.setenv("KUBECONFIG", f"{one}:{tmp_path / 'missing'}:{two}")
    assert find_files(None) == [one, two]
    assert find_files(str(two)) == [two]
    with pytest.raises(UsageError, match=r"nothing does not exist \(from --kubeconfig\)"):
        find_files(str(tmp_path / "nothing"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(UsageError, match=r"missing does not exist \(from KUBECONFIG\)"):
        find_files(None)


def test_without_anything_there_is_no_file() -> None:
    assert find_files(None) == []
