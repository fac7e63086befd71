"""Other bounds in the text of a Serve configuration: the rest stays as it is."""

from __future__ import annotations

import pytest
import yaml

from rayllm_ctl.model.kube.scaling import Bounds
from rayllm_ctl.serveconfig.bounds import models, with_bounds

TEXT = """\
applications:
- name: "chat"
  import_path: rayllm_ctl.serving.ingress:build
  deployments:
  - name: OpenAiIngress
    autoscaling_config: {min_replicas: 2, max_replicas: 8}
    user_config:
      title: "Größe – é 🚀"
      gateway: {"queue": {"maxPending": 48}}
- name: "chat-large"
  import_path: rayllm_ctl.serving.model:build
  args: {model_loading_config: {model_id: "a/b.c"}}
  deployments:
  - name: "LLMServer:a--b_c"
    max_ongoing_requests: 8
    autoscaling_config:
      min_replicas: 1   # kept
      max_replicas: 4
      initial_replicas: 3
- name: "chat-small"
  import_path: rayllm_ctl.serving.model:build
  args: {model_loading_config: {model_id: small}}
  deployments:
  - {name: "LLMServer:small", max_ongoing_requests: 16, autoscaling_config: {min_replicas: 0, max_replicas: 1}}
"""


def test_models_are_found_with_their_bounds() -> None:
    found = models(yaml.safe_load(TEXT))
    assert [(one.id, one.name, one.bounds, one.sole) for one in found] == [
        ("a/b.c", "chat-large", Bounds(1, 4), False),
        ("small", "chat-small", Bounds(0, 1), False),
    ]


def test_only_what_the_bounds_decide_changes() -> None:
    large, _ = models(yaml.safe_load(TEXT))
    changed = with_bounds(TEXT, large, Bounds(1, 2))
    expected = TEXT.replace("max_replicas: 4", "max_replicas: 2").replace("initial_replicas: 3", "initial_replicas: 2")
    assert changed == expected.replace('"maxPending": 48', '"maxPending": 32')


def test_a_queue_that_was_set_stays() -> None:
    text = TEXT.replace('"maxPending": 48', '"maxPending": 50')
    _, small = models(yaml.safe_load(text))
    assert with_bounds(text, small, Bounds(0, 3)) == text.replace(
        "{min_replicas: 0, max_replicas: 1}", "{min_replicas: 0, max_replicas: 3}"
    )


def test_a_bound_that_is_not_written_is_an_error() -> None:
    text = TEXT.replace("min_replicas: 0, max_replicas: 1", "max_replicas: 1")
    _, small = models(yaml.safe_load(text))
    with pytest.raises(ValueError, match=r"min_replicas is missing"):
        with_bounds(text, small, Bounds(0, 3))
