"""--serve-config as a user runs it: manifests, what is said of the file, and what is rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayllm_ctl.cli import app
from rayllm_ctl.model.text.yaml_text import dump
from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI
from tests.conftest import Golden

FILES = Path(__file__).parents[1] / "serveconfigs"
IMAGE = ("--image", "rayproject/ray:2.60.0")
WITH_VLLM = ("--image", "rayproject/ray-llm:2.60.0-py312-cu130")
FLAGS: dict[str, tuple[str, ...]] = {
    "text-ml": ("--code", str(FILES / "code"), "--env", "PYTHONPATH=/opt/own"),
    "https": ("--volume", "secret:tls:/tls", "--memory", "6Gi", "--cpu", "500m", "-n", "web"),
    "llm": (*WITH_VLLM, "--offline", "--gpu", "H100-80GB", "--hf-token-secret", "hf/token"),
    "llm-several": (*WITH_VLLM, "--offline", "--gpu", "H100-80GB"),
    "accelerators": ("--gpu", "H100-80GB", "--node-selector", "pool=gpu"),
}


def rendered(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = app.run(["render", *arguments])
    out, err = capsys.readouterr()
    return code, out, err.replace(f"{FILES}/", "")


@pytest.mark.parametrize("file", sorted(FILES.glob("*.yaml")), ids=lambda path: path.stem)
def test_corpus(file: Path, golden: Golden, capsys: pytest.CaptureFixture[str]) -> None:
    flags = FLAGS.get(file.stem, ())
    arguments = ("--serve-config", str(file), *(() if "--image" in flags else IMAGE), *flags)
    first, second = rendered(capsys, *arguments), rendered(capsys, *arguments)
    assert first == second
    assert first[0] == 0, first[2]
    golden.check(f"serveconfigs/{file.stem}.yaml", first[1])
    golden.check(f"serveconfigs/{file.stem}.txt", first[2])


def test_the_code_is_on_the_path_of_head_and_workers(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = rendered(
        capsys, "--serve-config", str(FILES / "text-ml.yaml"), "--code", str(FILES / "code"), *IMAGE, "-o", "json"
    )
    code, service = json.loads(out)["items"]
    assert code["immutable"] is True
    cluster = service["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        [container] = pod["containers"]
        assert {"name": "PYTHONPATH", "value": "/opt/rayllm/code"} in container["env"]
        assert container["volumeMounts"][0] == {"name": "code", "mountPath": "/opt/rayllm/code", "readOnly": True}
        [volume] = [one for one in pod["volumes"] if one["name"] == "code"]
        paths = {item["path"]: code["data"][item["key"]] for item in volume["configMap"]["items"]}
        assert volume["configMap"]["name"] == code["metadata"]["name"]
        assert paths["pkg/words.py"] == 'GREETING = "hello"\n'


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--code", "x"), "--code requires --serve-config"),
        (("--serve-config", "CHAT", "-f", "spec.yaml"), "--serve-config cannot be combined with -f"),
        (("--serve-config", "CHAT", "--model", "m", "--tp", "2"), "cannot be combined with --model, --tp"),
        (("--serve-config", "-"), "a name is required for a file from standard input"),
        (("--serve-config", "absent.yaml"), "absent.yaml: cannot be read: No such file"),
        (("--serve-config", "CHAT", "--name", "Chat"), "not a valid name"),
        (("--serve-config", "CHAT", "--code", "absent/code"), "absent/code is not a directory"),
        (("--serve-config", "CHAT", "--gpu", "L5"), "unknown GPU"),
    ],
)
def test_what_is_rejected(arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = rendered(capsys, *(str(FILES / "chat.yaml") if one == "CHAT" else one for one in arguments))
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("options", "flags", "words"),
    [
        ({"num_gpus": 100}, (), "d/D: a replica asks for 100 GPUs; a node has at most"),
        ({"memory": 8e9}, ("--memory", "4Gi"), "4Gi of memory is less than a replica of group cpu reserves"),
    ],
)
def test_a_replica_that_fits_no_worker_is_rejected(
    options: dict[str, Any], flags: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = {"name": "D", "ray_actor_options": options}
    file = tmp_path / "d.yaml"
    file.write_text(dump({"applications": [{"name": "d", "import_path": "a:b", "deployments": [deployment]}]}))
    code, out, err = rendered(capsys, "--serve-config", str(file), *IMAGE, *flags)
    assert (code, out) == (2, "")
    assert words in err


def test_what_is_deployed_can_be_extracted_and_deployed_again(
    run: Run, golden: Golden, tmp_path: Path, api: FakeAPI
) -> None:
    deploy = ("deploy", *IMAGE, "--name", "text", "--no-wait")
    first = run(*deploy, "--serve-config", str(FILES / "text-ml.yaml"))
    assert first.code == 0, str(first)
    extracted = run("serve-config", "text")
    golden.check("serveconfigs/extracted.txt", str(extracted))
    (tmp_path / "again.yaml").write_text(extracted.out)
    again = run(*deploy, "--serve-config", str(tmp_path / "again.yaml"))
    assert "rayservice/text unchanged" in again.err
    assert "is read as" not in again.err
    unknown = run("serve-config", "texts")
    assert unknown.code == 1
    assert "did you mean text?" in unknown.err


def test_chat_says_that_there_is_no_openai_api(run: Run, api: FakeAPI) -> None:
    assert run("deploy", *IMAGE, "--name", "text", "--serve-config", str(FILES / "text-ml.yaml")).code == 0
    api.answer("GET", "text-serve-svc:serve/proxy/v1/models$", (404, b"Path '/v1/models' not found."))
    refused = run("chat", "text", "Hello")
    assert refused.code == 1
    assert "service llm/text has no OpenAI-compatible API" in refused.err


@pytest.mark.parametrize("answer", [(404, b"Path '/v1/models' not found."), (200, b"hello"), (500, b"no")])
def test_endpoint_prints_the_address_of_each_application(run: Run, api: FakeAPI, answer: tuple[int, bytes]) -> None:
    assert run("deploy", *IMAGE, "--name", "text", "--serve-config", str(FILES / "text-ml.yaml")).code == 0
    api.answer("GET", "text-serve-svc:serve/proxy/v1/models$", answer)
    found = run("endpoint", "text")
    assert found.code == 0, str(found)
    addresses = {
        "translate": "http://text-serve-svc.llm:8000/translate",
        "count": "http://text-serve-svc.llm:8000/count",
    }
    assert json.loads(run("endpoint", "text", "-o", "json").out)["applications"].items() >= {
        ("translate", addresses["translate"])
    }
    assert addresses["translate"] in found.out.splitlines()
    assert run("endpoint", "text", "--external").code == 2


def test_endpoint_fails_while_the_applications_do_not_answer(run: Run, api: FakeAPI) -> None:
    assert run("deploy", *IMAGE, "--name", "text", "--serve-config", str(FILES / "text-ml.yaml")).code == 0
    api.answer("GET", "text-serve-svc:serve/proxy/v1/models$", (503, b"no endpoints available for service"))
    found = run("endpoint", "text")
    assert (found.code, found.out) == (1, "")


def llm(tmp_path: Path, **config: Any) -> Path:
    one = {"model_loading_config": {"model_id": "m", "model_source": "Qwen/Qwen3-8B"}, "accelerator_type": "L40S",
           "engine_kwargs": {"max_model_len": 4096}}  # fmt: skip
    application = {
        "name": "llms", "import_path": "ray.serve.llm:build_openai_app", "route_prefix": "/llm",
        "args": {"llm_configs": [one]},
    }  # fmt: skip
    file = tmp_path / "chat.yaml"
    file.write_text(dump({"applications": [application], **config}))
    return file


def test_an_api_below_a_route_and_at_another_port_is_found(run: Run, api: FakeAPI, tmp_path: Path) -> None:
    file = llm(tmp_path, http_options={"port": 8901})
    said = run("deploy", "--offline", *WITH_VLLM, "--name", "chat", "--serve-config", str(file))
    assert said.code == 0, str(said)
    assert "endpoint  http://chat-serve-svc.llm:8901/llm/v1 (in the cluster)" in said.err
    api.answer("GET", "chat-serve-svc:serve/proxy/v1/models$", (404, b"Path '/v1/models' not found."))
    api.answer("GET", "chat-serve-svc:serve/proxy/llm/v1/models$", (200, {"data": [{"id": "m"}]}))
    assert run("endpoint", "chat").out == "http://chat-serve-svc.llm:8901/llm/v1\n"
    stream = b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\ndata: [DONE]\n\n'
    api.answer("POST", "chat-serve-svc:serve/proxy/llm/v1/chat/completions$", (200, stream))
    assert run("chat", "chat", "Hello").out == "Hi\n"


def test_a_ready_service_says_where_its_applications_answer(run: Run) -> None:
    said = run("deploy", *IMAGE, "--name", "text", "--serve-config", str(FILES / "text-ml.yaml")).err
    assert "endpoint  http://text-serve-svc.llm:8000/translate (in the cluster): application translate" in said
    assert "group cpu: 1..6 workers of 1 CPU" in said


def test_the_text_that_is_sent_is_canonical() -> None:
    from rayllm_ctl.serveconfig.check import read_serve_config

    config = read_serve_config((FILES / "text-ml.yaml").read_text(), "f")
    assert yaml.safe_load(dump(config.data)) == config.data
    assert read_serve_config(dump(config.data), "f").notes == ()
