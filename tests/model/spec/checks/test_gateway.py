"""What is wrong with spec.gateway is said with its path, and what may be a secret is not repeated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rayllm_ctl.model.spec.checks.service import validate
from rayllm_ctl.model.spec.form import SecretKey
from rayllm_ctl.model.spec.gateway import (
    CORS,
    Bounds,
    Cleaning,
    Gateway,
    Keys,
    Limits,
    OutputTokens,
    Queue,
    Rates,
    Redis,
    Validation,
)
from rayllm_ctl.model.spec.pod_options import EnvironmentVariable, PodOptions, Pods
from rayllm_ctl.model.spec.service import Engine, LLMService, Model, Storage, Volume

SERVICE = LLMService("chat", Model("tiny"), engine=Engine(max_model_len=1024))
HOLDS = "hunter2"


def checks(**fields: object) -> Gateway:
    return Gateway(Validation(**fields))  # type: ignore[arg-type]


def limited(limits: Limits, keys: Keys | None = Keys()) -> Gateway:  # noqa: B008  frozen
    return Gateway(limits=limits, keys=keys)


@pytest.mark.parametrize(
    ("gateway", "problem"),
    [
        (checks(max_body_bytes="1"), "validation.maxBodyBytes: must be a whole number of bytes from 1Ki to 1Gi, not 1"),
        (checks(max_body_bytes="many"), "validation.maxBodyBytes: "),
        (checks(max_depth=0), "validation.maxDepth: must be at least 1"),
        (checks(body_timeout=0), "validation.bodyTimeout: must be greater than 0"),
        (checks(prompt_characters=Bounds(9, 3)), "validation.promptCharacters.min: 9 is greater than max (3)"),
        (checks(prompt_tokens=Bounds(min=1024)), "validation.promptTokens.min: no prompt of 1024 tokens fits"),
        (checks(output_tokens=OutputTokens(exceeding="reject")), "validation.outputTokens.exceeding: reject has no"),
        (checks(parameters=("temprature",)), 'validation.parameters[0]: "temprature" is not a sampling option'),
        (checks(parameters=("seed", "seed")), 'validation.parameters[1]: "seed" is already listed'),
        (Gateway(cleaning=Cleaning(remove=())), "cleaning: has no effect"),
        (Gateway(cleaning=Cleaning(characters="\0")), "cleaning.characters: contains control characters"),
        (Gateway(keys=Keys(f"sk-{HOLDS}/x")), "keys.secret: expected the name of a Secret: lower-case"),
        (limited(Limits(Rates("60 per minute"))), 'limits.perKey.requests: "60 per minute" is not a rate'),
        (limited(Limits(Rates("1/week"))), 'limits.perKey.requests: "1/week" is not a rate'),
        (limited(Limits(Rates("1/second")), None), "limits.perKey: requires spec.gateway.keys"),
        (limited(Limits(), None), "limits: has no effect: nothing is limited"),
        (limited(Limits(on_redis_failure="deny")), "limits.onRedisFailure: has no effect without"),
        (limited(Limits(trusted_proxies=-1)), "limits.trustedProxies: must be between 0 and 16"),
        (limited(Limits(redis=Redis())), "limits.redis: expected either url or managed: true"),
        (limited(Limits(redis=Redis("redis://r", managed=True))), "limits.redis: expected either url or managed"),
        (limited(Limits(redis=Redis(f"redis://:{HOLDS}@r:6379"))), "limits.redis.url: is not a valid URL"),
        (limited(Limits(redis=Redis("redis://r", image="x"))), "limits.redis.image: has no effect without managed"),
        (limited(Limits(redis=Redis(managed=True, image="A B"))), "limits.redis.image: not a valid image reference"),
        (limited(Limits(redis=Redis("redis://r", password_secret=SecretKey(HOLDS + "!", "x")))),
         "limits.redis.passwordSecret: expected the name of a Secret and one of its keys"),
        (Gateway(queue=Queue(0)), "queue.maxPending: must be at least 1"),
        (Gateway(cors=CORS(())), "cors.origins: must have at least one origin"),
        (Gateway(cors=CORS(("https://a.example/x",))), 'cors.origins[0]: "https://a.example/x" is not an origin'),
    ],
)  # fmt: skip
def test_problems(gateway: Gateway, problem: str) -> None:
    found = [str(one) for one in validate(replace(SERVICE, gateway=gateway))]
    assert any(one.startswith(f"spec.gateway.{problem}") for one in found), found
    assert not any(HOLDS in one for one in found)


def test_what_the_gateway_puts_into_pods_cannot_be_there_twice() -> None:
    variables = PodOptions(env=(EnvironmentVariable("PYTHONPATH", "/x"),))
    volumes = (
        Volume("serving", "/a", config_map="c"), Volume("b", "/etc/rayllm/keys/", secret="s"),
        Volume("ingress-code", "/opt/rayllm/ingress", config_map="c"),
    )  # fmt: skip
    own = {"RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "mine:middlewares", "RAYLLM_INGRESS_CODE": "mine"}
    engine = replace(SERVICE.engine, env=own)
    taken = replace(SERVICE, engine=engine, pods=Pods(worker=variables), storage=Storage(volumes))
    assert validate(taken) == []
    assert [problem.where for problem in validate(replace(taken, gateway=Gateway()))] == [
        "spec.storage.volumes[0].name",
        "spec.storage.volumes[1].mountPath",
        "spec.storage.volumes[2].name",
        "spec.storage.volumes[2].mountPath",
        "spec.engine.env.RAYLLM_INGRESS_CODE",
        "spec.engine.env.RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH",
        "spec.pods.worker.env[0].name",
    ]


def test_where_there_is_no_gateway() -> None:
    image = replace(SERVICE, engine=Engine(serving_code="image"))
    assert [problem.where for problem in validate(image)] == ["spec.engine.servingCode"]
    cluster = replace(SERVICE, mode="raycluster", gateway=Gateway())
    assert [problem.where for problem in validate(cluster)] == ["spec.gateway"]
