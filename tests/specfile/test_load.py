"""Spec files: what they become, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rayllm_ctl.errors import USAGE, UsageError
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.pod_options import AllOf, EnvironmentSource, KeyOf, ObjectName, ValueFrom
from rayllm_ctl.model.spec.service import Volume
from rayllm_ctl.specfile import load, load_file

FULL = """\
apiVersion: rayllm.io/v1alpha1
kind: LLMService
metadata: {name: qwen, namespace: llm}
spec:
  model:
    id: Qwen/Qwen3-32B
    revision: main
    tokenSecret: {name: hf, key: token}
  engine:
    image: rayproject/ray-llm:2.60.0-py312-cu130
    vllmVersion: 0.29.0
    rayVersion: 2.60.0
    maxModelLen: 32768
    dtype: bfloat16
    kvCacheDtype: fp8
    gpuMemoryUtilization: 0.9
    maxNumSeqs: 128
    maxNumBatchedTokens: 8192
    args: {enable_prefix_caching: true, limit_mm_per_prompt: {image: 2}}
    env: {OMP_NUM_THREADS: "4", MODE: on}
  accelerator: {kind: gpu, gpu: H100-80GB}
  parallelism: {tensor: 4, pipeline: 1}
  replicas: {min: 1, max: 4, targetOngoingRequests: 64, upscaleDelay: 10s, downscaleDelay: 5m, lookBackPeriod: 7.5}
  storage:
    volumes:
    - {name: models, mountPath: /models, persistentVolumeClaim: {claimName: models}}
    - {name: data, mountPath: /data, readOnly: false, hostPath: {path: /mnt/data}}
    - {name: settings, mountPath: /settings, configMap: {name: settings}}
    - {name: cert, mountPath: /cert, secret: {secretName: cert}}
  scheduling:
    nodeSelector: {pool: gpu}
    tolerations: [{key: team, value: search, effect: NoSchedule}, {key: spot}]
  resources:
    head: {cpu: 2, memory: 8Gi}
    worker: {cpu: 0.5, memory: 200Gi}
  pods:
    head:
      labels: {team: search}
    worker:
      imagePullSecrets: [{name: registry}]
      affinity: {podAffinity: {}}
      topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
      securityContext: {fsGroup: null}
      env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: a}}}, {name: B, value: "1"}]
      envFrom: [{prefix: X_, configMapRef: {name: c, optional: true}}]
  security: {podSecurity: privileged}
  load: {objective: latency, concurrency: 100, inputTokens: 1000, outputTokens: 200, ttft: 500ms, tpot: 0.05, rate: 3}
"""

HEAD = "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata: {name: q}\n"
SPEC = HEAD + "spec:\n  model: {id: m}\n"


def refused(text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load(text, source="q.yaml")
    assert caught.value.exit_code == USAGE
    return caught.value


def test_every_field_arrives() -> None:
    service = load(FULL, source="q.yaml")
    assert (service.name, service.namespace, service.model.token_secret) == ("qwen", "llm", SecretKey("hf", "token"))
    assert service.engine.vllm_version == "0.29.0"
    assert service.engine.args == {"enable_prefix_caching": True, "limit_mm_per_prompt": {"image": 2}}
    assert service.engine.env == {"OMP_NUM_THREADS": "4", "MODE": "on"}
    assert (service.replicas.upscale_delay, service.replicas.downscale_delay) == (10, 300)
    assert service.replicas.look_back_period == 7.5
    assert service.storage.volumes[1] == Volume("data", "/data", host_path="/mnt/data", read_only=False)
    assert service.storage.volumes[3].secret == "cert"
    assert (service.resources.head.cpu, service.resources.worker.cpu) == ("2", "0.5")
    assert (service.load.ttft, service.load.tpot, service.load.rate) == (0.5, 0.05, 3)
    assert service.scheduling.tolerations[1].value is None
    worker = service.pods.worker
    assert service.pods.head.labels == {"team": "search"}
    assert worker.image_pull_secrets == (ObjectName("registry"),)
    assert worker.affinity == {"podAffinity": {}}
    assert worker.topology_spread_constraints[0]["maxSkew"] == 1
    assert worker.security_context == {"fsGroup": None}
    assert [variable.name for variable in worker.env] == ["A", "B"]
    assert worker.env[0].value_from == ValueFrom(secret_key_ref=KeyOf("s", "a"))
    assert worker.env_from == (EnvironmentSource("X_", config_map_ref=AllOf("c", optional=True)),)
    assert service.security.pod_security == "privileged"


def test_a_model_is_enough() -> None:
    service = load(SPEC + "  engine:\n  replicas:\n", source="q.yaml")
    assert (service.name, service.model.id, service.replicas.max) == ("q", "m", 1)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("  engine:\n    maxModelLenght: 1\n", "q.yaml:7: spec.engine.maxModelLenght: unknown field",
         "did you mean maxModelLen?"),
        ("  storage: {model: {claim: {name: c, create: {}}}}\n",
         "q.yaml:6: spec.storage.model.claim.create: unknown field",
         "spec.storage.model.mirror.to.claim.create    # a new claim is empty, and a mirror downloads the "
         "model into it"),
        ("  engin: {}\n", "q.yaml:6: spec.engin: unknown field", "did you mean engine?"),
        ("  storage:\n    volumes:\n    - name: a\n      mountPath: /a\n      hostpath: {path: /b}\n",
         "q.yaml:10: spec.storage.volumes[0].hostpath: unknown field", "did you mean hostPath?"),
        ("  engine: {maxNumSeqs: many}\n",
         'q.yaml:6: spec.engine.maxNumSeqs: expected an integer, found "many"',
         "rayllm-ctl explain spec.engine.maxNumSeqs"),
        ('  engine: {maxModelLen: "32k"}\n',
         'q.yaml:6: spec.engine.maxModelLen: expected an integer, found "32k"', "maxModelLen: 32000"),
        ('  engine: {maxModelLen: "8192"}\n',
         'q.yaml:6: spec.engine.maxModelLen: expected an integer, found "8192"', "maxModelLen: 8192"),
        ("  engine: {env: {A: {}}}\n",
         "q.yaml:6: spec.engine.env.A: expected a string, found a mapping", "rayllm-ctl explain spec.engine.env"),
        ("  engine: {maxNumSeqs: true}\n",
         "q.yaml:6: spec.engine.maxNumSeqs: expected an integer, found true",
         "rayllm-ctl explain spec.engine.maxNumSeqs"),
        ("  engine: {maxNumSeqs: 1.5}\n",
         "q.yaml:6: spec.engine.maxNumSeqs: expected an integer, found 1.5",
         "rayllm-ctl explain spec.engine.maxNumSeqs"),
        ("  engine: [a]\n", "q.yaml:6: spec.engine: expected a mapping, found a list",
         "rayllm-ctl explain spec.engine"),
        ("  engine: {env: {A: 1}}\n", "q.yaml:6: spec.engine.env.A: expected a string, found 1",
         'quote it: A: "1"'),
        ("  engine: {gpuMemoryUtilization: .inf}\n",
         "q.yaml:6: .inf is not a finite number", None),
        ("  engine: {gpuMemoryUtilization: 1e999}\n",
         "q.yaml:6: 1e999 is not a finite number", None),
        ("  accelerator: {kind: gpus}\n",
         'q.yaml:6: spec.accelerator.kind: "gpus" is not supported (supported values: gpu, cpu)',
         "did you mean gpu?"),
        ("  replicas:\n    upscaleDelay: soon\n",
         'q.yaml:7: spec.replicas.upscaleDelay: "soon" is not a valid duration, such as 90s, 5m or 1h30m', None),
        ("  storage:\n    volumes:\n    - name: a\n",
         "q.yaml:8: spec.storage.volumes[0].mountPath: required field is missing",
         "rayllm-ctl explain spec.storage.volumes.mountPath"),
        ("  parallelism:\n    tensor: 0\n", "q.yaml:7: spec.parallelism.tensor: must be at least 1, not 0", None),
        ("  engine:\n    args:\n      tensor_parallel_size: 2\n",
         "q.yaml:8: spec.engine.args.tensor_parallel_size: has a field of its own",
         "spec.parallelism.tensor, or --tp"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(text: str, message: str, hint: str | None) -> None:
    error = refused(SPEC + text)
    assert error.message == message
    assert error.hints == ((hint,) if hint else ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "q.yaml: the file is empty"),
        ("# nothing\n", "q.yaml: the file is empty"),
        ("hello", 'q.yaml:1: expected apiVersion, kind, metadata and spec, found "hello"'),
        ("- a\n", "q.yaml:1: expected apiVersion, kind, metadata and spec, found a list"),
        ("kind: LLMService\n", "q.yaml:1: apiVersion: required field is missing"),
        ("apiVersion: v1\nkind: LLMService\n",
         'q.yaml:1: apiVersion: "v1" is not supported (expected rayllm.io/v1alpha1)'),
        ("apiVersion: rayllm.io/v1alpha1\nkind: RayService\n",
         'q.yaml:2: kind: "RayService" is not supported (expected LLMService)'),
        (HEAD, "q.yaml:1: spec: required field is missing"),
        (SPEC + "---\n" + SPEC, "q.yaml:6: a second document starts here, and the file may contain one"),
        (SPEC + "  model: {id: n}\n", 'q.yaml:6: duplicate key "model", first in line 5'),
        (SPEC + "  engine: {}\n  load: *a\n", "q.yaml:7: aliases (*a) are not supported; write the value out"),
        (SPEC + "  engine: &a {}\n", "q.yaml:6: anchors (&a) are not supported; write the value where it is used"),
        (SPEC + "  engine: {dtype: &a auto}\n",
         "q.yaml:6: anchors (&a) are not supported; write the value where it is used"),
        (SPEC + "  engine: {&a dtype: auto}\n",
         "q.yaml:6: anchors (&a) are not supported; write the value where it is used"),
        *((SPEC + f"  engine:\n    args:\n      {key}: 1\n",
           f'q.yaml:8: a key must be a string; quote it: "{key}"') for key in ("5", "true", "null", "~", "1.5")),
        *((SPEC + f"  engine: {{args: {{a: {number}}}}}\n", f"q.yaml:6: {number} is not a finite number")
          for number in (".inf", "-.Inf", "+.INF", ".nan", ".NaN", "1e999")),
        (SPEC + "  engine: {args: {seed: 017}}\n",
         'q.yaml:6: 017 has a leading zero: write 17, or "017" for a string'),
        (SPEC + "  engine: {<<: {dtype: auto}}\n", "q.yaml:6: merge keys (<<) are not supported; write the values out"),
        (SPEC + "  engine: !!python/object:os.system {}\n",
         "q.yaml:6: tags (tag:yaml.org,2002:python/object:os.system) are not supported; write a plain value"),
        (SPEC + "  ? [a]\n  : b\n", "q.yaml:6: a key must be a string"),
        (SPEC + "  load: {rate: " + "9" * 500 + "}\n", "q.yaml:6: a number must have at most 400 digits"),
        (SPEC + "  engine: {args: {a: " + "[" * 100_000 + "\n", "q.yaml:6: values are nested more than 32 levels deep"),
        (SPEC + "#" * 300_000, "q.yaml: the file is larger than 256 KiB"),
        (SPEC + "\t- a\n", "q.yaml:6: not valid YAML: found character that cannot start any token"),
        (SPEC + "  a: b: c\n", "q.yaml:6: not valid YAML: mapping values are not allowed in this context"),
        (SPEC + "  a: [\n", "q.yaml:7: not valid YAML: did not find expected node content"),
    ],
)  # fmt: skip
def test_files_that_are_no_spec_file(text: str, message: str) -> None:
    assert refused(text).message.split("\n")[0] == message


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (None, "rayllm-ctl init Qwen/Qwen3-32B > qwen.yaml    # writes a spec file"),
        (b"\x7fELF\xff\xfe", "rayllm-ctl init Qwen/Qwen3-32B > qwen.yaml    # writes a spec file"),
        (b"", "rayllm-ctl init Qwen/Qwen3-32B > qwen.yaml    # writes a spec file"),
        (f"{SPEC}---\n{SPEC}".encode(), "move what follows --- to a file of its own"),
    ],
)
def test_a_file_that_is_none_leads_to_one(tmp_path: Path, content: bytes | None, hint: str) -> None:
    file = tmp_path / "q.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_file(file)
    assert caught.value.hints == (hint,)


def test_aliases_cannot_explode() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"b{i}: &b{i} [*{'a' if not i else f'b{i - 1}'}, *a]\n" for i in range(50))
    assert "anchors" in refused(bomb).message


def test_all_problems_at_once_each_with_its_line() -> None:
    error = refused(SPEC + "  engine:\n    dtyp: auto\n    maxNumSeqs: x\n  replicas: {min: y}\n")
    assert [line.split(": ")[0] for line in error.message.split("\n")] == ["q.yaml:7", "q.yaml:8", "q.yaml:9"]
    assert error.hints == (
        "line 7: did you mean dtype?",
        "line 8: rayllm-ctl explain spec.engine.maxNumSeqs",
        "line 9: rayllm-ctl explain spec.replicas.min",
    )
    error = refused(SPEC.replace("name: q", "name: Q") + "  parallelism:\n    tensor: 0\n    pipeline: 0\n")
    assert [line.split(": ")[0] for line in error.message.split("\n")] == ["q.yaml:3", "q.yaml:7", "q.yaml:8"]


def test_a_token_in_the_wrong_place_is_not_repeated() -> None:
    token = "hf_" + "x" * 30
    for text in (
        f"  model: {{id: m, tokenSecret: {token}}}\n",
        f"  model: {{id: m, tokenSecret: {{name: {token}, key: k}}}}\n",
    ):
        assert token not in refused(HEAD + "spec:\n" + text).message
    assert token not in refused(SPEC + f"  engine: {{env: {{A: {token}}}}}\n").message


def test_scalars_have_the_meaning_of_yaml_1_2() -> None:
    text = (
        SPEC
        + "  engine: {args: {a: 0o17, b: 1e3, c: y, d: 1:30, e: 2026-01-01, f: ~, g: '1', h: 0x1f, i: -0, j: .5}}\n"
    )
    assert load(text, source="q").engine.args == {
        "a": 15, "b": 1000.0, "c": "y", "d": "1:30", "e": "2026-01-01", "f": None, "g": "1", "h": 31, "i": 0, "j": 0.5,
    }  # fmt: skip


JSON = """{
\t"apiVersion": "rayllm.io/v1alpha1", "kind": "LLMService", "metadata": {"name": "q"},
\t"spec": {
\t\t"model": {"id": "m"},
\t\t"engine": {"args": {"a": "\\ud83d\\ude00\\n\\/", "b": [1, -2.5e3, true, null, "{x: 1}", {}], "KEY": 1}}
\t}
}
"""


def test_json_files_have_the_meaning_of_json() -> None:
    key = "k" * 2000
    assert load(JSON.replace("KEY", key), source="q.json").engine.args == {
        "a": "😀\n/", "b": [1, -2500.0, True, None, "{x: 1}", {}], key: 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"KEY": 1', '"KEY": 1, "KEY": 2', 'q.json:5: duplicate key "KEY", first in line 5'),
        ('"KEY": 1', '"KEY": "\\ud83d"', "q.json:5: a string contains a surrogate that is not part of a pair"),
        ('"KEY": 1', '"KEY": 1e999', "q.json:5: 1e999 is not a finite number"),
        ('"KEY": 1', '"KEY": ' + "[" * 40 + "]" * 40, "q.json:5: values are nested more than 32 levels deep"),
        ('"KEY": 1', '"KEY": ' + "[" * 90_000 + "]" * 90_000, "q.json:5: values are nested more than 32 levels deep"),
        ('"model"', '"modle"', "q.json:4: spec.modle: unknown field"),
    ],
)  # fmt: skip
def test_errors_in_json_files_have_lines(old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(JSON.replace(old, new), source="q.json")
    assert message in caught.value.message.split("\n")


@given(st.text(max_size=200) | st.text("&*!|>{}[]:-? \n\t'\"#ab", max_size=60).map(lambda text: SPEC + text))
def test_any_text_is_a_service_or_one_clear_error(text: str) -> None:
    assert outcome(text).startswith("q.yaml")


def outcome(text: str) -> str:
    try:
        return f"q.yaml describes {load(text, source='q.yaml').name}"
    except UsageError as error:
        return error.message


def test_files(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_bytes(b"\xef\xbb\xbf" + SPEC.encode())
    assert load_file(good).name == "q"
    (tmp_path / "latin.yaml").write_bytes(SPEC.encode() + "# é".encode("latin-1"))
    (tmp_path / "big.yaml").write_bytes(b"#" * 10_000_000)
    for name, words in (
        ("none.yaml", "no such file"),
        (".", "is a directory"),
        ("latin.yaml", "6: the file is not valid UTF-8"),
        ("big.yaml", "larger than 256 KiB"),
    ):
        with pytest.raises(UsageError, match=words):
            load_file(tmp_path / name)


@pytest.mark.parametrize("left", ["${MODEL_ID}", "{{ model }}"])
def test_a_placeholder_that_breaks_the_yaml_is_named(left: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(f"apiVersion: rayllm.io/v1alpha1\nspec:\n  model: {{id: {left}}}\n", source="q.yaml")
    assert caught.value.message == f'q.yaml:3: the placeholder "{left}" was not replaced by a value'


@pytest.mark.parametrize(
    ("version", "kind", "hint"),
    [
        ("rayllm.io/v1", "LLMService", "apiVersion: rayllm.io/v1alpha1"),
        ("rayllm.io/v1alpha1", "llmservice", "kind: LLMService"),
        ("ray.io/v1", "RayService", "apply rendered manifests with kubectl apply -f"),
    ],
)
def test_another_version_of_a_spec_is_no_rendered_manifest(version: str, kind: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: q}}\nspec: {{}}\n", source="q.yaml")
    assert caught.value.hints[0].endswith(hint)


def test_an_open_bracket_is_to_be_closed() -> None:
    with pytest.raises(UsageError, match="not valid YAML") as caught:
        load("a: {\n  b: c\n", source="q.yaml")
    assert caught.value.hints == ("close each bracket and quote, and indent the keys of a mapping alike",)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("  gateway: {limits: {requests: 3}}\n", "rayllm-ctl explain spec.gateway.limits"),
        ("  paint: red\n", "rayllm-ctl explain spec"),
    ],
)
def test_every_unknown_field_has_a_hint(tmp_path: Path, text: str, hint: str) -> None:
    file = tmp_path / "q.yaml"
    file.write_text("apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata: {name: q}\nspec:\n"
                    "  model: {id: a/b}\n" + text)  # fmt: skip
    with pytest.raises(UsageError) as caught:
        load_file(file)
    assert caught.value.hints == (hint,)


def test_invalid_yaml_has_a_hint(tmp_path: Path) -> None:
    for text in ("[1,2\n", "a:\n\tb: 1\n", "a: b: c\n", "a: @b\n", "a: 'b\n"):
        file = tmp_path / "q.yaml"
        file.write_text(text)
        with pytest.raises(UsageError) as caught:
            load_file(file)
        assert all(caught.value.hints), text
        assert caught.value.hints, text


@pytest.mark.parametrize(("text", "count"), [("1e+06", 1_000_000), ("8.0", 8), ("8.5", None)])
def test_whole_numbers_may_be_written_as_floats(tmp_path: Path, text: str, count: int | None) -> None:
    """Helm writes 1000000 as 1e+06, and the API server reads it as an integer."""
    file = tmp_path / "q.yaml"
    file.write_text(
        "apiVersion: rayllm.io/v1alpha1\nkind: LLMService\nmetadata: {name: q}\n"
        f"spec: {{model: {{id: m}}, replicas: {{max: {text}}}}}\n"
    )
    if count is None:
        with pytest.raises(UsageError, match=r"expected an integer, found 8\.5"):
            load_file(file)
    else:
        assert load_file(file).replicas.max == count
