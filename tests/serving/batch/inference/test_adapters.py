"""LoRA adapters: what is rejected before an engine starts, which rows they answer, and where engines find them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.serving.batch.conftest import Rig


@pytest.fixture
def folder(rig: Rig) -> Path:
    rig.write("a.txt", "one\ntwo\n")
    made = rig.root / "adapters"
    for name, config in {"legal": {"r": 8}, "large": {"r": 48}, "huge": {"r": 1024}, "other": {}}.items():
        (made / name).mkdir(parents=True)
        (made / name / "adapter_config.json").write_text(json.dumps(config))
    (made / "empty").mkdir()
    return made


def settings(rig: Rig, folder: Path, adapter: str, **engine: Any) -> dict[str, Any]:
    return rig.settings("text", "jsonl", engine={"loraPath": str(folder), "adapter": adapter, **engine})


def openai(rig: Rig, folder: Path, models: list[str]) -> dict[str, Any]:
    bodies = [{"model": model, "messages": [{"role": "user", "content": "Hi"}]} for model in models]
    lines = [json.dumps({"custom_id": str(i), "body": body}) for i, body in enumerate(bodies)]
    file = rig.write(f"{models[-1].replace('/', '-')}.jsonl", "\n".join(lines))
    places = {"input": {"paths": [str(file)]}, "output": {"path": f"{rig.root}/of {file.stem}"}}
    return rig.settings("openai", "openai", engine={"loraPath": str(folder)}, **places)


@pytest.mark.parametrize(
    ("adapter", "code", "message", "hint"),
    [
        ("none", "InputMissing", "the LoRA adapter none was not found: there is no", "model.loraPath"),
        ("empty", "InputMissing", "empty/adapter_config.json", "check the adapter's name"),
        ("other", "WrongFormat", "states no rank", "save_pretrained"),
        ("large", "InvalidSpec", "has rank 48, and the engine holds adapters up to rank 16", "max_lora_rank: 64"),
        ("huge", "InvalidSpec", "has rank 1024", "up to rank 512 only"),
    ],
)
def test_rejected(rig: Rig, folder: Path, adapter: str, code: str, message: str, hint: str) -> None:
    failed = rig.failure(settings(rig, folder, adapter))
    assert failed["code"] == code, failed
    assert message in failed["message"]
    assert hint in failed["hint"]


def test_the_rank_that_the_engine_is_told(rig: Rig, folder: Path) -> None:
    assert rig.run(settings(rig, folder, "large", kwargs={"max_lora_rank": 64}))[0] == 0
    # What the engine has room for is not what it answers.
    assert rig.run(settings(rig, folder, "large", kwargs={"max_lora_rank": 128}))[0] == 0
    assert rig.asked == []


def test_another_adapter_is_another_job(rig: Rig, folder: Path) -> None:
    assert rig.run(settings(rig, folder, "legal"))[0] == 0
    failed = rig.failure(settings(rig, folder, "large", kwargs={"max_lora_rank": 64}))
    assert failed["code"] == "OutputNotEmpty"
    assert failed["message"].endswith("differs in model")


def test_every_row_asks_for_the_adapter(rig: Rig, folder: Path) -> None:
    from rayllm_ctl.serving.batch import settings as batch_settings
    from rayllm_ctl.serving.batch.inference.prompts import Prompts

    job = batch_settings.parse(settings(rig, folder, "legal"))
    assert Prompts(job).ask({"text": "one"}).model == "legal"
    plain = batch_settings.parse(rig.settings("text", "jsonl"))
    assert Prompts(plain).ask({"text": "one"}).model == "m"


def test_lines_of_openai_files_name_adapters(rig: Rig, folder: Path) -> None:
    assert rig.run(openai(rig, folder, ["legal", "m"]))[0] == 0
    failed = rig.failure(openai(rig, folder, ["legal", "none"]))
    assert (failed["code"], "adapter none" in failed["message"]) == ("InputMissing", True)
    for outside in ("../adapters/legal", str(folder / "legal"), ".."):
        failed = rig.failure(openai(rig, folder, [outside]))
        assert failed["code"] == "WrongFormat", failed


@pytest.mark.parametrize(
    ("given", "engine", "where"),
    [
        ("text", {"adapter": "a"}, "engine.adapter: needs engine.loraPath"),
        ("text", {"loraPath": "/a"}, "engine.loraPath: needs engine.adapter"),
        ("openai", {"loraPath": "/a", "adapter": "a"}, "engine.adapter: is named by the lines of OpenAI files"),
    ],
)
def test_contradictions(rig: Rig, given: str, engine: dict[str, str], where: str) -> None:
    rig.write("a.txt", "one\n")
    assert where in rig.failure(rig.settings(given, "jsonl", engine=engine))["message"]


def test_an_engine_finds_an_adapter(rig: Rig, folder: Path) -> None:
    from rayllm_ctl.serving.batch.failures import BatchError
    from rayllm_ctl.serving.batch.inference.adapters import Folders
    from rayllm_ctl.serving.batch.settings import Storage

    folders = Folders(f"{folder}/", Storage())
    assert folders.of("legal") == str(folder / "legal")
    for name in ("none", "empty", "../adapters/legal"):
        with pytest.raises(BatchError, match="there is no LoRA adapter"):
            folders.of(name)
