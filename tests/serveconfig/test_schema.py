"""Ray's rules: what they reject, what they take, and what they ignore, with the line of each."""

from __future__ import annotations

from typing import Any

import pytest

from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.spec.serve_options import ServeProxies
from rayllm_ctl.serveconfig.check import read_serve_config

APPLICATION = "applications:\n- import_path: a:b\n"


def deployment(options: str) -> str:
    return f"{APPLICATION}  deployments:\n  - name: D\n    {options}\n"


def rejected(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        read_serve_config(text, "f")
    return "\n".join((caught.value.message, *caught.value.hints))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "f:1: expected a mapping, found a list"),
        ("http_options: {}", "applications: required field is missing"),
        ("applications: []", "must contain an application"),
        ("import_path: a:b", "a configuration of a single application is not supported"),
        ("applications:\n- name: a", "f:2: applications[0].import_path: required field is missing"),
        ("applications: {import_path: a:b}", "applications: expected a list, found a mapping"),
        ("applications:\n- import_path: ab", '"ab" is not an import path'),
        ("applications:\n- import_path: a:b:c", "is not an import path"),
        ("applications:\n- import_path: 5", "import_path: expected a string, found 5\nquote it"),
        (f"{APPLICATION}  route_prefix: x", '"x" does not start with /'),
        (f"{APPLICATION}  route_prefix: /x/", '"/x/" ends with /'),
        (f"{APPLICATION}  route_prefix: /{{x}}", "contains a wildcard"),
        (f"{APPLICATION}  name: ''", "name: must not be empty"),
        (f"{APPLICATION}  port: 8000", "port: an application has none\nset http_options.port"),
        (f"{APPLICATION}  args: null", "args: expected a mapping, found null"),
        (
            f"{APPLICATION}- import_path: c:d\n",
            'applications[1].name: "default", the default, is that of applications[0]',
        ),
        (
            f"{APPLICATION}- import_path: c:d\n  name: x\n  route_prefix: /\n",
            'applications[1].route_prefix: "/" is that of',
        ),
        (f"{APPLICATION}proxy_location: Everynode", '"Everynode" is not supported'),
        (f"{APPLICATION}proxy_location: Everynode", "did you mean EveryNode?"),
        (f"{APPLICATION}http_options: {{port: 0}}", "http_options.port: must be at least 1, not 0"),
        (f"{APPLICATION}http_options: {{port: http}}", 'expected an integer, found "http"'),
        (f"{APPLICATION}http_options: {{port: 80.5}}", "expected an integer, found 80.5"),
        (f"{APPLICATION}http_options: {{port: .5e400}}", "expected an integer"),
        (f"{APPLICATION}http_options: {{ssl_certfile: /c}}", "ssl_certfile: requires ssl_keyfile as well"),
        (f"{APPLICATION}http_options: null", "http_options: expected a mapping, found null"),
        (f"{APPLICATION}logging_config: {{levle: INFO}}", "logging_config.levle: unknown field"),
        (f"{APPLICATION}logging_config: {{log_level: info}}", '"info" is not supported'),
        (f"{APPLICATION}logging_config: {{log_level: 15}}", "15 is not a log level"),
        (f"{APPLICATION}logging_config: {{encoding: json}}", '"json" is not supported'),
        (f"{APPLICATION}target_capacity: 101", "must be at most 100, not 101"),
        (
            f"{APPLICATION}controller_options: {{runtime_env: {{pip: [x]}}}}",
            "controller_options.runtime_env.pip: unknown field",
        ),
        (
            deployment("num_replicas: 0"),
            "f:5: applications[0].deployments[0].num_replicas: must be an integer of at least 1",
        ),
        (deployment("num_replicas: many"), 'or "auto", not "many"'),
        (deployment("num_replicas: 2\n    autoscaling_config: {max_replicas: 3}"), 'must be "auto" or left out'),
        (deployment("autoscaling_config: {min_replicas: 3, max_replicas: 2}"), "3 is greater than max_replicas (2)"),
        (deployment("autoscaling_config: {initial_replicas: 5, max_replicas: 2}"), "5 is not between"),
        (deployment("max_ongoing_requests: 0"), "must be at least 1, not 0"),
        (deployment("max_ongoing_requests: 2147483648"), "must be at most 2147483647, not 2147483648"),
        (deployment("num_replicas: 2147483648"), "num_replicas: must be at most 2147483647, not 2147483648"),
        (
            deployment("autoscaling_config: {max_replicas: 2147483648}"),
            "max_replicas: must be at most 2147483647, not 2147483648",
        ),
        (
            deployment("autoscaling_config: {initial_replicas: 4294967296}"),
            "initial_replicas: must be at most 2147483647, not 4294967296",
        ),
        (
            deployment(f"autoscaling_config: {{min_replicas: {10**400}, max_replicas: 2}}"),
            "min_replicas: must be at most 2147483647, not a number of more than 40 digits",
        ),
        (deployment("ray_actor_options: {num_cpus: 1.0e+30}"), "num_cpus: must be at most 100000000000000, not 1e+30"),
        (
            deployment(f"ray_actor_options: {{memory: {10**400}}}"),
            "memory: must be at most 100000000000000, not a number of more than 40 digits",
        ),
        (deployment("ray_actor_options: {resources: {x: 'inf'}}"), "x: must be at most 100000000000000"),
        (deployment("ray_actor_options: {num_gpus: 1.0e-309}"), "num_gpus: must be 0 or at least 0.0001, not 1e-309"),
        (deployment("ray_actor_options: {num_gpus: 'nan'}"), 'num_gpus: must be at least 0, not "nan"'),
        (deployment("placement_group_bundles: [{CPU: 1.0e+15}]"), "CPU: must be at most 100000000000000"),
        (deployment("max_queued_requests: 0"), "must be -1 (no limit) or at least 1"),
        (deployment("max_queued_requests: '5'"), "expected an integer"),
        (deployment("user_config: [1]"), "expected a mapping, found a list"),
        (deployment("ray_actor_options: {num_cpus: -1}"), "must be at least 0, not -1"),
        (deployment("ray_actor_options: {resources: {CPU: 1}}"), "cannot be set here: Ray has num_cpus for it"),
        (deployment("ray_actor_options: {num_cpus: two}"), 'expected a number, found "two"'),
        (deployment("placement_group_bundles: []"), "must contain a bundle"),
        (deployment("placement_group_bundles: [{CPU: 0}]"), "reserves nothing"),
        (deployment("placement_group_bundles: [{GPU: 1}]"), "has less CPU than ray_actor_options asks for (1)"),
        (deployment("placement_group_strategy: PACK"), "requires placement_group_bundles"),
        (deployment("placement_group_bundles: [{CPU: 1}]\n    max_replicas_per_node: 1"), "cannot be combined with"),
        (
            deployment("gang_scheduling_config: {gang_size: 2}\n    num_replicas: 3"),
            "3 is not a multiple of gang_size (2)",
        ),
        (deployment("backpressure_config: {status_code: 500}"), "must be 503 or 429, not 500"),
        (deployment("rolling_update_percentage: 2"), "must be at most 1, not 2"),
        (f"{APPLICATION}  deployments: [{{num_replicas: 1}}]", "deployments[0].name: required field is missing"),
        (
            f"{APPLICATION}  external_scaler_enabled: true\n  deployments: [{{name: D, num_replicas: auto}}]",
            "cannot be autoscaled",
        ),
        (
            f"{APPLICATION}  runtime_env: {{working_dir: .}}",
            "is a folder of this machine, which KubeRay and the pods cannot reach",
        ),
        (f"{APPLICATION}  runtime_env: {{working_dir: .}}", "--code DIR"),
        (f"{APPLICATION}  runtime_env: {{py_modules: [./m]}}", "py_modules[0]: is a folder of this machine"),
        (f"{APPLICATION}  runtime_env: {{working_dir: 'ftp://h/c.zip'}}", "ftp:// is not supported"),
        (f"{APPLICATION}  runtime_env: {{working_dir: 'local://x'}}", "takes an absolute path"),
        (f"{APPLICATION}  runtime_env: {{env_vars: {{A: 1}}}}", "env_vars.A: expected a string, found 1"),
        (f"{APPLICATION}proxy_location: Disabled", "nothing would answer"),
        (f"{APPLICATION}http_options: {{port: 8265}}", "8265 is the port of Ray's dashboard"),
        (
            f"{APPLICATION}http_options: {{port: 9000}}\ngrpc_options: {{grpc_servicer_functions: [a:b]}}",
            "9000 is that of http_options",
        ),
        (
            f"{APPLICATION}proxy_location: HeadOnly\nhttp_options: {{ssl_certfile: /c, ssl_keyfile: /k}}",
            "cannot be combined with HTTPS",
        ),
    ],
)
def test_what_is_rejected(text: str, words: str) -> None:
    assert words in rejected(text)


def test_every_problem_has_its_line() -> None:
    text = f"{APPLICATION}  route_prefix: x\nhttp_options:\n  port: a\n"
    assert rejected(text).splitlines() == [
        'f:3: applications[0].route_prefix: "x" does not start with /',
        'f:5: http_options.port: expected an integer, found "a"',
    ]


@pytest.mark.parametrize(
    "text",
    [
        APPLICATION,
        f"{APPLICATION}http_options: {{port: '8001'}}",
        f"{APPLICATION}http_options: {{request_timeout_s: null, keep_alive_timeout_s: 5.0}}",
        f"{APPLICATION}  route_prefix: null\n- import_path: c.d\n  name: x\n  route_prefix: null\n",
        f"{APPLICATION}logging_config: null\ntracing_config: {{sampling_ratio: 0.5}}",
        f"{APPLICATION}logging_config: {{log_level: 10, enable_access_log: 'no'}}",
        deployment("num_replicas: null\n    autoscaling_config: null"),
        deployment("num_replicas: auto\n    autoscaling_config: {max_replicas: 3, aggregation_function: MAX}"),
        deployment("ray_actor_options: {num_cpus: null, runtime_env: {working_dir: 's3://b/c.zip'}}"),
        deployment("placement_group_bundles: [{CPU: 1, GPU: 1}, {GPU: 1}]\n    placement_group_strategy: STRICT_PACK"),
        deployment("deployment_actors: [{name: a, actor_class: 'm:C', actor_options: {num_cpus: 1}}]"),
    ],
)
def test_what_is_valid(text: str) -> None:
    assert read_serve_config(text, "f").data["applications"]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (
            f"{APPLICATION}http_options: {{prot: 1}}",
            "f:3: http_options.prot: unknown field: Ray ignores it (did you mean port?)",
        ),
        (f"{APPLICATION}http_options: {{location: EveryNode}}", "unknown field: Ray ignores it"),
        (deployment("ray_actor_options: {num_gpu: 1}"), "unknown field: Ray ignores it (did you mean num_gpus?)"),
        (f"{APPLICATION}proxy_location: HeadOnly", "only the head answers"),
        (
            f"{APPLICATION}http_options: {{host: localhost}}",
            '"localhost" is reachable in the pod alone: replaced by 0.0.0.0',
        ),
        (
            f"{APPLICATION}http_options: {{host: 10.0.0.1}}",
            '"10.0.0.1" is not an address of every pod: replaced by 0.0.0.0',
        ),
        (f"{APPLICATION}http_options: {{port: 8901}}", "8901: container port, probes and Service follow"),
        (f"{APPLICATION}http_options: {{port: 12000}}", "12000 is in the range of Ray's worker processes"),
        (
            f"{APPLICATION}http_options: {{ssl_certfile: /c, ssl_keyfile: /k}}",
            "HTTPS: workers answer, the head does not",
        ),
        (f"{APPLICATION}grpc_options: {{grpc_servicer_functions: [a:b]}}", "gRPC on port 9000, named serve-grpc"),
        (f"{APPLICATION}grpc_options: {{port: 9001}}", "Ray starts no gRPC server without grpc_servicer_functions"),
        (f"{APPLICATION}target_capacity: 50", "an incremental upgrade overrides it"),
        (f"{APPLICATION}  runtime_env: {{env_vars: {{HF_TOKEN: abc}}}}", "env_vars.HF_TOKEN: looks like a credential"),
        (f"{APPLICATION}  args: {{url: 'http://u:p@h/'}}", "args.url: looks like a credential"),
        (f"{APPLICATION}  args: {{big: 9223372036854775808}}", "has more than 64 bits: KubeRay rounds it to a float"),
        (f"{APPLICATION}  args: {{t: 1.0}}", "1.0 reaches the application as an integer"),
        (f"{APPLICATION}  runtime_env: {{image_uri: x}}", "Ray starts it with podman"),
    ],
)
def test_what_is_noted(text: str, note: str) -> None:
    notes = read_serve_config(text, "f").notes
    assert any(note in line for line in notes), notes


def test_no_credential_is_ever_printed() -> None:
    secret = "hf_" + "x" * 30
    text = (
        f"{APPLICATION}  args: {{a: {secret}, b: 'https://u:{secret}@h'}}\n  runtime_env: {{env_vars: {{T: {secret}}}}}"
    )
    assert not any(secret in line for line in read_serve_config(text, "f").notes)


@pytest.mark.parametrize(
    ("text", "proxies"),
    [
        (APPLICATION, ServeProxies()),
        (f"{APPLICATION}proxy_location: HeadOnly", ServeProxies(on_workers=False)),
        (f"{APPLICATION}http_options: {{port: '8901'}}", ServeProxies(http_port=8901)),
        (f"{APPLICATION}grpc_options: {{port: 9001, grpc_servicer_functions: [a:b]}}", ServeProxies(grpc_port=9001)),
        (f"{APPLICATION}http_options: {{ssl_certfile: /c, ssl_keyfile: /k}}", ServeProxies(https=True)),
    ],
)
def test_where_proxies_listen(text: str, proxies: ServeProxies) -> None:
    assert read_serve_config(text, "f").proxies == proxies


def test_nothing_else_is_changed() -> None:
    text = deployment("user_config: {a: [1, null, {b: x}]}")
    expected: dict[str, Any] = {
        "applications": [
            {"import_path": "a:b", "deployments": [{"name": "D", "user_config": {"a": [1, None, {"b": "x"}]}}]}
        ]
    }
    assert read_serve_config(text, "f").data == expected
