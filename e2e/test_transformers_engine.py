"""The Transformers engine against the library's own `generate`, in the Python of the serving image.

It needs no cluster: Ray's interfaces are there, but nothing of Ray runs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.progress import to_stderr
from e2e.images import rootfs, serving

pytestmark = pytest.mark.xdist_group("transformers_engine")

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**serving.ENV, "PYTHONPATH": "/mnt"}
ARCHITECTURES = ("llama", "neox", "window", "mamba")
SECONDS = 240
TOKENS = 40
"""Of the answers of engine_inside."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What engine_inside printed, by the name of each check."""
    base, model = serving.ensure_base(to_stderr()), serving.ensure_model(to_stderr())
    folder = tmp_path_factory.mktemp("engine")
    shutil.copytree(model, folder / "tiny")
    shutil.copytree(ROOT / "rayllm_ctl/serving", folder / "rayllm_ctl/serving")
    (folder / "rayllm_ctl/__init__.py").touch()
    shutil.copy(ROOT / "e2e/generation/engine_inside.py", folder)
    # An answer that never comes must not hold up the tests.
    command = ["timeout", str(SECONDS), "python3", "/mnt/engine_inside.py"]
    inside = rootfs.start_inside(base, command, mnt=folder, env=ENVIRONMENT)
    assert inside.stdout is not None
    lines = list(inside.stdout)
    assert inside.wait() == 0, "".join(lines[-40:])
    checks = [json.loads(line.removeprefix("check: ")) for line in lines if line.startswith("check: ")]
    return {check.pop("check"): check for check in checks}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_greedy_answers_are_those_of_generate_whatever_is_computed_beside(found: Any, name: str) -> None:
    check = found[f"greedy {name}"]
    assert check["equal"]
    assert check["different"] == 8


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_seed_gives_the_same_text_whatever_is_computed_beside(found: Any, name: str) -> None:
    assert found[f"seeds {name}"] == {"same": True, "other": True, "several": 3, "first": True}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_beam_search_is_that_of_generate_and_others_are_computed_meanwhile(found: Any, name: str) -> None:
    assert found[f"beams {name}"] == {"equal": True, "beside": True, "sampled_differs": True}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_options_that_depend_on_earlier_tokens_are_those_of_generate(found: Any, name: str) -> None:
    assert found[f"processed {name}"] == {"equal": True}


def test_eight_clients_are_computed_together(found: Any) -> None:
    speed = found["speed"]
    print(f"one client {speed['one']} tokens/s, eight {speed['eight']} tokens/s, ratio {speed['ratio']}")
    alone, together = speed["steps"]
    assert together < 2 * alone


def test_who_no_longer_waits_for_an_answer_costs_nothing(found: Any) -> None:
    assert found["cancelled"]["running"] == 1
    # Of the one request that was answered; each of the others would double it. A step may just have been under way.
    assert found["cancelled"]["computed"] < 1.5 * TOKENS


def test_a_step_without_memory_fails_its_requests_and_a_lost_device_the_replica(found: Any) -> None:
    check = found["failures"]
    assert (check["full"]["code"], check["full"]["type"]) == (503, "out_of_memory")
    assert len(check["after"][0]) > 0
    assert (check["lost"]["code"], check["lost"]["type"]) == (503, "replica_lost")
    assert "has ended" in check["health"]


def test_a_model_that_cannot_be_loaded_says_why(found: Any) -> None:
    packages, context, nothing = found["unloadable"]["said"]
    assert "lacks the Python packages accelerate; `rayllm-ctl image recipe`" in packages
    assert "has 2048 positions, and transformers.max_model_len is 1000000" in context
    assert "/mnt/nothing cannot be loaded" in nothing


def test_a_replica_is_one_actor_with_all_of_its_gpus(found: Any) -> None:
    assert found["deployed"] == {
        "actor": {"num_cpus": 3, "num_gpus": 2, "memory": 7, "accelerator_type": "H100"},
        "options": {"num_replicas": 1},
    }


def test_a_stream_has_the_text_of_the_whole_answer(found: Any) -> None:
    check = found["stream"]
    events = check["events"].split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    role, *chunks, usage = (json.loads(event.removeprefix("data: ")) for event in events[:-2])
    assert role["choices"][0]["delta"]["role"] == "assistant"
    whole = check["whole"]
    (choice,) = whole["choices"]
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == choice["message"]["content"]
    assert choice["message"]["content"].startswith("Hello! I am a very small model")
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"][0]["finish_reason"]] == [
        "stop"
    ]
    expected = {name: usage["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    assert expected.items() <= whole["usage"].items()
    assert usage["choices"] == []


def test_a_stop_sequence_is_no_part_of_the_answer(found: Any) -> None:
    check = found["stop"]
    assert check["choice"]["message"]["content"] == check["text"].partition(check["stop"])[0]
    assert check["choice"]["finish_reason"] == "stop"


def test_several_prompts_and_answers_have_an_index_each(found: Any) -> None:
    choices = found["several"]["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    assert {choice["finish_reason"] for choice in choices} == {"length"}
    assert choices[0]["text"] == choices[1]["text"]
    assert found["several"]["usage"]["completion_tokens"] == 12


def test_errors_name_the_field(found: Any) -> None:
    errors = [*found["errors"]["errors"], found["too long"]["error"], found["unknown token"]["error"]]
    assert [error["param"] for error in errors] == [
        "decoding", "num_beams", "tools", "max_tokens", "logit_bias", "response_format", "num_beams", "prompt",
        "prompt",
    ]  # fmt: skip
    assert {error["code"] for error in [*errors, found["embeddings"]["error"]]} == {400}
