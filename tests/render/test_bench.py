"""The Job of a load test."""

from __future__ import annotations

import json

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.loadtest.settings import Load, Prompts, Settings, Target
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.render.bench import PACKAGE, BenchPod, render_bench

POD = BenchPod("registry/image:1", ({"name": "pull"},), {"runAsNonRoot": True}, {"capabilities": {"drop": ["ALL"]}})


def settings(prompts: Prompts = Prompts()) -> Settings:  # noqa: B008 - frozen
    return Settings(
        Target("http://svc.ns:8000/v1", ("m",), keys=("sk-secret",)), (Load(concurrency=1, requests=2),), prompts
    )


def test_the_job_has_the_image_and_the_limits_of_the_head_and_the_key_by_reference() -> None:
    code, job = render_bench("b", "svc", "ns", POD, settings().to_json(), SecretKey("keys", "bench"))
    spec = job["spec"]["template"]["spec"]
    (box,) = spec["containers"]
    assert (box["image"], spec["imagePullSecrets"]) == ("registry/image:1", [{"name": "pull"}])
    assert spec["securityContext"] == {"runAsNonRoot": True}
    assert box["securityContext"] == {"capabilities": {"drop": ["ALL"]}}
    assert spec["automountServiceAccountToken"] is False
    assert box["env"][-1]["valueFrom"]["secretKeyRef"] == {"name": "keys", "key": "bench"}
    assert "sk-secret" not in json.dumps([code, job])


def test_all_of_the_generator_and_the_settings_are_where_python_looks() -> None:
    code, job = render_bench("b", "svc", "ns", POD, settings().to_json(), None)
    (volume,) = job["spec"]["template"]["spec"]["volumes"]
    files = {item["path"]: code["data"][item["key"]] for item in volume["configMap"]["items"]}
    assert {f"rayllm_ctl/loadtest/{path.name}" for path in PACKAGE.glob("*.py")} < set(files)
    assert files["rayllm_ctl/__init__.py"] == ""
    assert Settings.from_json(json.loads(files["settings.json"]), ("sk-secret",)) == settings()
    assert volume["configMap"]["name"] == code["metadata"]["name"]


def test_prompts_that_no_config_map_holds_are_rejected() -> None:
    rows = tuple({"prompt": "x" * 1000} for _ in range(1000))
    with pytest.raises(UsageError, match="more than a ConfigMap can hold"):
        render_bench("b", "svc", "ns", POD, settings(Prompts(rows=rows)).to_json(), None)
