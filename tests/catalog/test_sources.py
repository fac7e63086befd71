"""Where a model's facts come from: the order of the sources, and what a hub, a cache or a folder can do wrong."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import close_session, constants

from rayllm_ctl.catalog.sources import FoundModel, hub
from rayllm_ctl.catalog.sources import find as find_in
from rayllm_ctl.errors import UsageError, UserError
from rayllm_ctl.model.spec.fact_sources import FactSources
from rayllm_ctl.model.spec.service import Model
from tests.catalog.hubserver import COMMIT, CONFIG, Hub, running, safetensors
from tests.cluster.api.test_transport import Keys

KNOWN = "Qwen/Qwen3-0.6B"
"""A model that the catalog has."""
LONG = 60.0
"""Seconds that no test waits."""
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "HF_HUB_CACHE", *PROXIES, *map(str.lower, PROXIES)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a test that sets a limit reaches it, however busy the machine is."""
    for name in ("CONNECT_SECONDS", "OVERALL_SECONDS", "EXTRAS_SECONDS"):
        monkeypatch.setattr(hub, name, LONG)
    monkeypatch.setattr(hub, "RETRY_SECONDS", (0.0, 0.0))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running(Hub()) as started:
        monkeypatch.setenv("HF_ENDPOINT", started.address)
        yield started


def write(folder: Path, **files: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        (folder / (name if "." in name else f"{name}.json")).write_bytes(content)
    return folder


def cached(home: Path, model_id: str, **files: Any) -> Path:
    root = home / "hub" / f"models--{model_id.replace('/', '--')}"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text(COMMIT)
    return write(root / "snapshots" / COMMIT, **files)


def find(model: Model, *, revision: str | None = None, **sources: Any) -> FoundModel:
    return find_in(model, FactSources(**sources), revision=revision)


def refused(model_id: str, **options: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        find(Model(model_id), **options)
    return caught.value


# The order


def test_the_named_config_wins_over_everything(tmp_path: Path, server: Hub) -> None:
    config = write(tmp_path / "mine", config={**CONFIG, "hidden_size": 512}) / "config.json"
    found = find(Model(KNOWN), model_config=config)
    assert (found.facts.hidden_size, found.source) == (512, str(config))
    assert server.seen == []


def test_a_folder_that_is_visible_wins_over_the_cache(tmp_path: Path, server: Hub) -> None:
    cached(tmp_path / "hf", "a/b", config=CONFIG)
    folder = write(tmp_path / "model", config={**CONFIG, "hidden_size": 512})
    assert find(Model("a/b", path=str(folder))).facts.hidden_size == 512
    assert server.seen == []


def test_the_cache_wins_over_the_hub(tmp_path: Path, server: Hub) -> None:
    cached(tmp_path / "hf", "a/b", config=CONFIG, tokenizer_config={"chat_template": "{{ x }}"})
    found = find(Model("a/b"))
    assert found.source == f"Hugging Face cache, commit {COMMIT[:7]}"
    assert found.chat_template is True
    assert server.seen == []


def test_the_catalog_wins_over_everything_that_is_not_named(tmp_path: Path, server: Hub) -> None:
    """The cache, the hub and a folder of the model's name in the current directory, which is `tmp_path`."""
    server.add(KNOWN, config=CONFIG)
    cached(tmp_path / "hf", KNOWN, config=CONFIG)
    write(tmp_path / KNOWN, config=CONFIG)
    for offline in (False, True):
        found = find(Model(KNOWN), offline=offline)
        assert (found.facts.hidden_size, found.source.partition(" (")[0]) == (1024, "catalog")
    assert server.seen == []


def test_the_hub_is_asked_for_what_the_catalog_has_if_the_user_says_so(server: Hub) -> None:
    server.add(KNOWN, config=CONFIG)
    found = find(Model(KNOWN), from_hub=True)
    assert found.facts.hidden_size == 256
    assert found.source == f"hub {server.address.removeprefix('http://')}, commit {COMMIT[:7]}"
    assert found.warnings == ()


def test_where_only_what_is_named_counts_a_model_that_the_catalog_lacks_is_rejected(
    tmp_path: Path, server: Hub
) -> None:
    server.add("a/b", config=CONFIG)
    cached(tmp_path / "hf", "a/b", config={**CONFIG, "hidden_size": 512})
    error = refused("a/b", named_only=True)
    assert "a/b is not in the catalog" in error.message
    assert any(hint.startswith("--from-hub") for hint in error.hints)
    assert server.seen == []
    assert find(Model("a/b"), named_only=True, from_hub=True).source.startswith("Hugging Face cache")
    folder = write(tmp_path / "mine", config=CONFIG)
    assert find(Model("a/b", path=str(folder)), named_only=True).source == str(folder / "config.json")


def test_a_cache_that_is_asked_for_and_empty_is_not_replaced_by_the_catalog() -> None:
    error = refused(KNOWN, from_hub=True, offline=True)
    assert "not in the Hugging Face cache" in error.message
    assert "leave out --from-hub" in error.hints[0]


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_offline_asks_nobody(server: Hub, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    server.add(KNOWN, config=CONFIG)
    if how == "environment":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="is not asked when offline"):
        find(Model(KNOWN), offline=how == "flag", from_hub=True)
    assert server.seen == []


def test_offline_and_unknown_names_the_nearest() -> None:
    error = refused("qwen3-32b", offline=True)
    assert "is not asked when offline" in error.message
    assert "Qwen/Qwen3-32B" in error.hints[0]


def test_a_folder_of_the_pods_is_planned_by_name_and_says_so() -> None:
    found = find(Model(KNOWN, path="/only/in/the/pod"), offline=True)
    assert found.warnings == (f"/only/in/the/pod is not on this machine: planned with the config of {KNOWN}",)


# What the hub knows beside config.json


def test_the_index_gives_the_bytes_and_the_tokenizer_the_template(server: Hub) -> None:
    server.add(
        "a/b", config=CONFIG, index={"metadata": {"total_size": 123456}}, tokenizer_config={"chat_template": "x"}
    )
    found = find(Model("a/b"))
    assert (found.exact_bytes, found.chat_template) == (123456, True)


def test_a_single_file_is_measured_by_its_header_alone(server: Hub) -> None:
    weights = safetensors(5000)
    server.add("a/b", config=CONFIG, weights=weights, tokenizer_config={}, template=b"{{ x }}")
    found = find(Model("a/b"))
    assert (found.exact_bytes, found.chat_template) == (5000, True)
    asked = [headers for path, headers in server.seen if path.startswith("/cdn/")]
    assert [headers["range"] for headers in asked] == ["bytes=0-7"]


def test_quantization_beside_the_config_is_read(server: Hub) -> None:
    side = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    server.add("a/b", config=CONFIG, hf_quant_config=side)
    quantization = find(Model("a/b")).facts.quantization
    assert quantization is not None
    assert quantization.method == "modelopt"


def test_a_revision_is_asked_for(server: Hub) -> None:
    server.add("a/b", config=CONFIG)
    find(Model("a/b", revision="v1"))
    assert server.seen[0][0] == "/a/b/resolve/v1/config.json"
    error = refused("a/b", revision="nope")
    assert 'no revision "nope"' in error.message


def test_a_revision_of_a_model_of_the_catalog_is_read_from_the_hub_if_asked_for(server: Hub) -> None:
    server.add(KNOWN, config=CONFIG)
    assert 'no revision "nope"' in refused(KNOWN, revision="nope", from_hub=True).message
    (warning,) = find(Model(KNOWN), revision="nope").warnings
    assert 'revision "nope" was not read' in warning


# The token


def test_the_token_goes_to_the_hub_and_not_to_another_host(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    server.token = "hf_secret"
    server.add("a/b", config=CONFIG, weights=safetensors(10))
    assert find(Model("a/b")).exact_bytes == 10
    sent = {path.startswith("/cdn/"): headers.get("authorization") for path, headers in server.seen}
    assert sent == {False: "Bearer hf_secret", True: None}


def test_a_stored_token_is_used(server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("hf_stored\n")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    server.token = "hf_stored"
    server.add("a/b", config=CONFIG)
    assert find(Model("a/b")).facts.hidden_size == 256


def test_a_token_that_is_none_is_refused_without_showing_it(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_sec ret\r\nX: y")
    error = refused("a/b")
    assert "HF_TOKEN" in error.message
    assert "hf_sec" not in error.message + "".join(error.hints)


def test_a_token_file_that_cannot_be_read_is_not_used(
    server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path))
    server.add("a/b", config=CONFIG)
    find(Model("a/b"))
    assert {headers.get("authorization") for _, headers in server.seen} == {None}


def test_a_token_that_a_job_cannot_exchange_is_an_error(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    monkeypatch.setenv("HF_OIDC_RESOURCE", "a/b")
    assert "HF_OIDC_ID_TOKEN is not set" in refused("a/b").message
    monkeypatch.setenv("HF_OIDC_ID_TOKEN", "id_secret")
    error = refused("a/b")
    assert error.message == "no token for HF_OIDC_RESOURCE: the hub did not exchange the token of the CI job"
    assert server.seen == []


def test_no_error_shows_the_token(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    for mode in ("gated", "broken", "truncated", "malformed", "loop"):
        server.mode = mode
        error = refused("a/b")
        assert "hf_secret" not in error.message + "".join(error.hints)


# Proxies and certificates


def test_a_proxy_is_asked(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    server.add("http://hub.invalid/a/b", config=CONFIG)
    monkeypatch.setenv("HTTP_PROXY", server.address)
    monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
    assert find(Model("a/b")).source == f"hub hub.invalid, commit {COMMIT[:7]}"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("socks5://user:secret@127.0.0.1:1", "the proxy or SSL_CERT_FILE cannot be used .*socks"),
        ("gopher://user:secret@127.0.0.1:1", "the address of the proxy is invalid"),
        ("http://user:sec:ret/@127.0.0.1:1", "the address of the proxy is invalid"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_an_error_without_its_password(
    server: Hub, monkeypatch: pytest.MonkeyPatch, address: str, said: str
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", address)
    with pytest.raises(UserError, match=said) as caught:
        find(Model("a/b"))
    assert "sec" not in caught.value.message.replace("SSL_CERT_FILE", "")
    assert server.seen == []


def test_the_certificates_of_ssl_cert_file_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.path("server.crt"), keys.path("server.key"))
    with running(Hub(), context) as secured:
        secured.add("a/b", config=CONFIG)
        monkeypatch.setenv("HF_ENDPOINT", secured.address)
        assert "CERTIFICATE_VERIFY_FAILED" in refused("a/b").message
        close_session()
        monkeypatch.setenv("SSL_CERT_FILE", str(keys.path("ca.crt")))
        assert find(Model("a/b")).facts.hidden_size == 256
        close_session()
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing"))
        assert "SSL_CERT_FILE cannot be used (" in refused("a/b").message


# A hub that misbehaves

MODES = {
    "gated": ("gated or private", 1),
    "rate-limited": (r"429.*retry after 120 s", 1),
    "broken": ("HTTP 503", 3),
    "gigantic": ("at most 5 MB", 1),
    "endless": ("more than 5 MB", 1),
    "truncated": ("broke off", 1),
    "malformed": ("config.json is not valid JSON", 1),
    "loop": ("redirected too often", 6),
    "downgrade": ("redirected from http to ftp", 1),
    "endless-error": ("gated or private", 1),
}
"""What is said of each, and how many requests it takes."""


@pytest.mark.parametrize(("mode", "said", "requests"), [(mode, *expected) for mode, expected in MODES.items()])
def test_a_model_that_only_the_hub_has_is_refused_with_the_reason(
    server: Hub, mode: str, said: str, requests: int
) -> None:
    server.mode = mode
    with pytest.raises(UserError, match=said) as caught:
        find(Model("a/b"))
    assert len(server.seen) == requests
    assert caught.value.hints


@pytest.mark.parametrize("mode", MODES)
def test_a_hub_that_was_asked_for_is_not_replaced_by_the_catalog(server: Hub, mode: str) -> None:
    server.mode = mode
    assert "leave out --from-hub: the catalog has the model" in refused(KNOWN, from_hub=True).hints


def test_a_redirect_is_followed_before_its_body_ends(server: Hub, capfd: pytest.CaptureFixture[str]) -> None:
    server.mode = "endless-redirect"
    server.add("a/b", config=CONFIG)
    server.files["a/b"] |= dict.fromkeys(("hf_quant_config.json", "tokenizer_config.json"), b"{}")
    server.files["a/b"]["model.safetensors.index.json"] = b'{"metadata": {"total_size": 5}}'
    assert find(Model("a/b")).exact_bytes == 5


def test_what_a_server_wants_to_be_printed_is_not(server: Hub, capfd: pytest.CaptureFixture[str]) -> None:
    server.mode = "endless-error"
    refused("a/b")
    assert capfd.readouterr() == ("", "")


def test_a_hub_that_sends_nothing_is_given_up_on(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "OVERALL_SECONDS", 0.05)
    server.mode = "silent"
    assert "did not answer within 0.05 s" in refused("a/b").message


def test_a_hub_that_never_ends_its_answer_is_given_up_on(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "OVERALL_SECONDS", 0.05)
    server.mode = "drip"
    with pytest.raises(hub.HubError, match=r"timed out|did not answer within 0\.05 s"):
        hub.read("a/b", None)


def test_the_rest_is_not_waited_for_long(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "EXTRAS_SECONDS", 0.05)
    server.add("a/b", config={**CONFIG, "quantization_config": None}, index={"metadata": {"total_size": 5}})
    server.mode = "only-config"
    earlier = threading.enumerate()
    found = find(Model("a/b"))
    assert [thread.name for thread in threading.enumerate() if thread not in earlier].count("hub") == 1
    assert (found.facts.hidden_size, found.exact_bytes) == (256, None)


def test_a_resolver_without_a_network_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def no_resolver(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", no_resolver)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    error = refused("a/b")
    assert asked == ["hub.invalid"]
    assert error.message == "hub.invalid cannot be reached (Temporary failure in name resolution)"
    assert error.hints[0] == "check the network and HF_ENDPOINT"
    assert "--model-config" in error.hints[-1]
    assert refused("qwen3-32b").hints[0].startswith("did you mean Qwen/Qwen3-32B")


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def stuck(*_: Any, **__: Any) -> Any:
        released.wait(LONG)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    monkeypatch.setattr(hub, "OVERALL_SECONDS", 0.05)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.invalid")
    try:
        error = refused("a/b")
    finally:
        released.set()
    assert "did not answer within 0.05 s" in error.message


def test_a_failure_of_the_moment_is_tried_again(server: Hub) -> None:
    server.add("a/b", config=CONFIG)
    server.mode = "flaky"
    assert find(Model("a/b")).facts.hidden_size == 256
    assert [path for path, _ in server.seen].count("/a/b/resolve/main/config.json") == 3


def test_a_refusal_is_not_tried_again(server: Hub) -> None:
    refused("a/b")
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("HF_HUB_OFFLINE", "1"), ("TRANSFORMERS_OFFLINE", "yes")],
)
def test_offline_by_environment(name: str, value: str, server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert "is not asked when offline" in refused("a/b").message
    assert server.seen == []


@pytest.mark.parametrize(
    ("environment", "sent"),
    [
        ({}, None),
        ({"HUGGING_FACE_HUB_TOKEN": "old"}, "Bearer old"),
        ({"HUGGING_FACE_HUB_TOKEN": "old", "HF_TOKEN": "new"}, "Bearer new"),
        ({"HF_TOKEN": "new", "HF_HUB_ENABLE_HF_TRANSFER": "1"}, "Bearer new"),
        ({"HF_TOKEN": "new", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, None),
        ({"HF_HOME": "{tmp}/home"}, "Bearer stored-in-home"),
        ({"HF_HOME": "{tmp}/home", "HF_TOKEN_PATH": "{tmp}/token"}, "Bearer stored-elsewhere"),
        ({"HF_HOME": "{tmp}/home", "HF_TOKEN": "new"}, "Bearer new"),
    ],
)
def test_the_names_of_hugging_face_for_the_token(
    server: Hub, tmp_path: Path, environment: dict[str, str], sent: str | None
) -> None:
    """In a process of its own, since huggingface-hub reads the environment when it is imported."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text("stored-in-home\n")
    (tmp_path / "token").write_text("stored-elsewhere")
    server.add("a/b", config=CONFIG)
    environment = {name: value.format(tmp=tmp_path) for name, value in environment.items()}
    command = [sys.executable, "-m", "rayllm_ctl", "plan", "--model", "a/b", "--gpu", "L4", "-o", "json"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert {headers.get("authorization") for _, headers in server.seen} == {sent}


def test_offline_needs_no_http() -> None:
    code = (
        "import sys; from rayllm_ctl.catalog.sources import find; from rayllm_ctl.model.spec.service import Model; "
        "from rayllm_ctl.model.spec.fact_sources import FactSources; "
        f"find(Model({KNOWN!r}), FactSources()); "
        "print({'huggingface_hub', 'httpx2', 'urllib.request'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_what_is_not_there_is_said(server: Hub) -> None:
    server.add("a/gguf", readme={})
    assert "no model a/b" in refused("a/b").message
    assert "no config.json" in refused("a/gguf").message


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b/c", "a b", "", "a/b?x", "http://x/y"])
def test_a_name_that_no_hub_can_have_is_not_asked_for(server: Hub, name: str) -> None:
    assert "not a valid name on the Hub" in refused(name).message
    assert server.seen == []


@pytest.mark.parametrize("address", ["file:///etc", "ftp://x", "hub.example", "http://x:y", "http://[::1"])
def test_an_endpoint_that_is_no_web_address_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(UsageError, match="HF_ENDPOINT"):
        find(Model("a/b"))


@pytest.mark.parametrize(
    ("name", "value"), [("HF_ENDPOINT", "http://x:y"), ("HF_HUB_DOWNLOAD_TIMEOUT", "10s"), ("HF_HUB_ETAG_TIMEOUT", "")]
)
def test_a_variable_with_which_the_package_cannot_be_imported_is_an_error(name: str, value: str) -> None:
    command = [sys.executable, "-m", "rayllm_ctl", "plan", "--model", "a/b", "--gpu", "L4"]
    done = subprocess.run(command, env={**os.environ, name: value}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert name in done.stderr
    assert "internal error" not in done.stderr


def test_a_config_that_cannot_be_planned_is_named_with_its_source(server: Hub) -> None:
    server.add("a/b", config={**CONFIG, "architectures": ["NoSuchForCausalLM"], "hidden_size": "wide"})
    error = refused("a/b")
    assert "hidden_size is 'wide'" in error.message
    assert "hub 127.0.0.1" in error.message


def test_an_architecture_that_is_not_known_is_found_with_the_size_of_its_tensors(server: Hub) -> None:
    server.add("a/b", config={**CONFIG, "architectures": ["NoSuchForCausalLM"]})
    found = find(Model("a/b"), from_hub=True)
    assert "generic" in found.facts.traits


# Folders and files


def test_headers_count_every_file_once(tmp_path: Path) -> None:
    folder = write(tmp_path / "m", config=CONFIG)
    (folder / "model-00001-of-00002.safetensors").write_bytes(safetensors(300))
    (folder / "model-00002-of-00002.safetensors").write_bytes(safetensors(45))
    (folder / "consolidated.safetensors").write_bytes(safetensors(345))
    assert found_in(folder).exact_bytes == 345


def test_the_index_counts_where_files_are_not_there(tmp_path: Path) -> None:
    index = {"metadata": {"total_size": 999}, "weight_map": {"w": "model-00001-of-00002.safetensors", "v": "missing"}}
    folder = write(tmp_path / "m", config=CONFIG, **{"model.safetensors.index.json": index})
    (folder / "model-00001-of-00002.safetensors").write_bytes(safetensors(300))
    assert found_in(folder).exact_bytes == 999


@pytest.mark.parametrize("content", [b"", b"\x00" * 7, b"\xff" * 40, safetensors(100)[:20]])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = write(tmp_path / "m", config=CONFIG)
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(UsageError, match="damaged"):
        found_in(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff\xfe{}", "not valid UTF-8"),
        (b'{"a": ' * 100_000, "nested too deeply|not valid JSON"),
        (b" " * 5_000_001, "larger than 5 MB"),
    ],
)
def test_a_config_that_is_none_is_a_usage_error_that_names_the_file(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        find(Model(KNOWN), model_config=path)
    assert str(path) in caught.value.message


def test_a_path_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        find(Model(KNOWN), model_config=tmp_path / "nope")
    with pytest.raises(UsageError, match=r"contains no config\.json"):
        find(Model(KNOWN), model_config=tmp_path)


def test_the_side_file_belongs_to_config_json_alone(tmp_path: Path) -> None:
    side = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}
    folder = write(tmp_path / "m", config=CONFIG, other=CONFIG, hf_quant_config=side)
    assert find(Model("x"), model_config=folder / "config.json").facts.quantization is not None
    assert find(Model("x"), model_config=folder / "other.json").facts.quantization is None


def test_a_cached_commit_and_a_reference_that_leaves_the_cache(tmp_path: Path, server: Hub) -> None:
    cached(tmp_path / "hf", "a/b", config=CONFIG)
    assert "cache" in find(Model("a/b", revision=COMMIT)).source
    (tmp_path / "hf" / "outside").write_text(COMMIT)
    with pytest.raises(UserError):
        find(Model("a/b", revision="../../../outside"))


def found_in(folder: Path) -> FoundModel:
    return find(Model("x"), model_config=folder)
