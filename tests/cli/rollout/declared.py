"""A service that an LLMService declares, beside commands: the controller looks whenever a command waits for it."""

from __future__ import annotations

from threading import Event as Stop
from typing import Any

import pytest

from rayllm_ctl.cluster import connect
from rayllm_ctl.model.text.yaml_text import dump
from rayllm_ctl.workflows.rollout.llmservice import wait
from tests.cli.conftest import Run
from tests.cluster.fakeapi import FakeAPI
from tests.controller.conftest import Controlled

SPEC: dict[str, Any] = {"model": {"id": "Qwen/Qwen3-0.6B"}, "accelerator": {"gpu": "L4"}}
FLAGS = ("--model", "Qwen/Qwen3-0.6B", "--gpu", "L4", "--name", "tiny", "--offline", "-n", "llm")


def spec_file(**more: Any) -> str:
    """The spec file of the service, with other fields of the spec."""
    document = {"apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService", "metadata": {"name": "tiny"}}
    return dump({**document, "spec": {**SPEC, **more}})


def with_gpus(api: FakeAPI) -> None:
    """A node for two replicas and more."""
    node = api.stored("Node", "n1", "")
    status = {**node["status"], "allocatable": {**node["status"]["allocatable"], "nvidia.com/gpu": "8"}}
    api.put(kind="Node", metadata={"name": "n1", "labels": {"nvidia.com/gpu.product": "NVIDIA-L4"}}, status=status)


class Declared(Controlled):
    """The controller, which looks while a command waits. looking: whether it does."""

    def __init__(self, api: FakeAPI, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looking = True
        self._run = run
        with_gpus(api)
        super().__init__(api, connect())
        monkeypatch.setattr(wait, "pause", self._pause)

    def _pause(self, _seconds: float, _stop: Stop) -> None:
        if self.looking:
            self.step()

    def spec(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.stored("LLMService", "tiny")["spec"]
        return found

    def child(self) -> dict[str, Any]:
        return self.api.stored("RayService", "tiny")

    def settle(self) -> None:
        """Look until the service is Ready."""
        for _ in range(4):
            self.step()
        assert self.condition("Ready")[0] == "True", self.status()
        self.api.requests.clear()


def managers(item: dict[str, Any]) -> set[str]:
    """Who has applied fields of an object."""
    return {one["manager"] for one in item["metadata"].get("managedFields") or ()}
