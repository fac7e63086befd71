from __future__ import annotations

import json
from typing import Any

from rayllm_ctl.changes.compare import compare_manifests
from rayllm_ctl.changes.objects import explain_object
from rayllm_ctl.model.observed.changes import Diff, ObjectDiff, Running
from rayllm_ctl.model.observed.unified_diff import file_name, unified


def secret(data: dict[str, str], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "llm", **metadata},
        "data": data,
    }


def compared(before: Any, after: Any) -> ObjectDiff:
    return compare_manifests(before, after, explain_object, Running())


def test_values_of_secrets_are_masked_as_kubectl_does() -> None:
    last = {"kubectl.kubernetes.io/last-applied-configuration": '{"data":{"token":"b2xk"}}'}
    found = compared(
        secret({"token": "b2xk", "same": "c2FtZQ==", "gone": "Z29uZQ=="}, annotations=last),
        secret({"token": "bmV3", "same": "c2FtZQ==", "more": "bW9yZQ=="}),
    )
    assert found.before is not None
    assert found.before["data"] == {"token": "*** (before)", "same": "***", "gone": "***"}
    assert found.after is not None
    assert found.after["data"] == {"token": "*** (after)", "same": "***", "more": "***"}
    shown = repr(found) + unified(Diff((found,)), found)
    assert not [value for value in ("b2xk", "c2FtZQ", "Z29uZQ", "bmV3", "bW9yZQ") if value in shown]


def test_a_created_and_a_deleted_secret_are_masked_too() -> None:
    for found in (compared(None, secret({"token": "b2xk"})), compared(secret({"token": "b2xk"}), None)):
        assert "b2xk" not in repr(found)
        assert "***" in unified(Diff((found,)), found)


def test_string_data_is_masked() -> None:
    item = {**secret({}), "stringData": {"token": "hunter2"}}
    assert "hunter2" not in repr(compared(None, item))


def test_what_the_api_server_keeps_is_no_difference() -> None:
    before = secret({"a": "b"}, resourceVersion="1", generation=1, uid="u", managedFields=[{}], creationTimestamp="t")
    after = {**secret({"a": "b"}, resourceVersion="2", generation=2), "status": {"a": 1}}
    found = compared(before, after)
    assert found.action == "unchanged"
    assert unified(Diff((found,)), found) == ""


def test_the_input_is_not_changed() -> None:
    item = secret({"a": "b"}, annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"})
    text = json.dumps(item)
    compared(item, item)
    assert json.dumps(item) == text


def test_file_names_are_those_of_kubectl() -> None:
    service = {"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "qwen", "namespace": "llm"}}
    assert file_name(compared(None, service)) == "ray.io.v1.RayService.llm.qwen"
    assert file_name(compared(None, secret({}))) == "v1.Secret.llm.s"


def test_the_unified_diff_of_an_object() -> None:
    old = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "llm"}, "data": {"a": "1"}}
    found = compared(old, {**old, "data": {"a": "2"}})
    assert unified(Diff((found,)), found) == (
        "diff -u -N LIVE/v1.ConfigMap.llm.c MERGED/v1.ConfigMap.llm.c\n"
        "--- LIVE/v1.ConfigMap.llm.c\n+++ MERGED/v1.ConfigMap.llm.c\n"
        "@@ -4,4 +4,4 @@\n   name: c\n   namespace: llm\n data:\n-  a: '1'\n+  a: '2'\n"
    )
