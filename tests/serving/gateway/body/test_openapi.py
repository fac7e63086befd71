"""The OpenAPI document says what the gateway accepts."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs

from rayllm_ctl.serving.gateway.body import openapi
from rayllm_ctl.serving.gateway.settings import Validation
from tests.serving.gateway.mutate import SOUND
from tests.serving.gateway.test_requests import BODIES

DOCUMENT = openapi.document(Validation(), keys=True)


def schema(path: str) -> Any:
    return DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]


def test_accepted_bodies_are_described() -> None:
    accepted = [(path, body) for path, body, status, *_ in BODIES if status == 200]
    accepted += [(path, {"model": "small", **body}) for path, body in SOUND]
    checked = 0
    for path, body in accepted:
        if path in DOCUMENT["paths"]:
            errors = [str(error) for error in jsonschema_rs.iter_errors(schema(path), body)]
            assert not errors, (path, body, errors)
            checked += 1
    assert checked > 15


def test_types_and_ranges_are_described() -> None:
    described = 0
    for path, body, _, _, code in BODIES:
        if isinstance(body, dict) and code in ("invalid_type", "invalid_value") and path in DOCUMENT["paths"]:
            described += not jsonschema_rs.is_valid(schema(path), json.loads(json.dumps(body)))
    # Not in a schema: details of content parts, and rules about several fields.
    assert described >= 25


def test_fields_of_an_engine_are_described_where_a_model_has_it() -> None:
    path, both = "/v1/chat/completions", openapi.document(Validation(), keys=True, engines=("vllm", "transformers"))
    fields = both["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert set(fields) - set(schema(path)["properties"]) == {"decoding", "num_beams"}
    assert jsonschema_rs.is_valid(fields["decoding"], "beam_search")
    assert not jsonschema_rs.is_valid(fields["decoding"], "contrastive_search")


def test_every_error_is_described() -> None:
    responses = DOCUMENT["paths"]["/v1/chat/completions"]["post"]["responses"]
    assert set(responses) == {"200", *(str(s) for s in (400, 401, 403, 404, 405, 408, 413, 415, 429, 500, 503))}
    error = {"error": {"message": "m", "type": "t", "param": None, "code": "c"}}
    assert jsonschema_rs.is_valid(openapi.document(Validation(), keys=False)["components"]["schemas"]["Error"], error)
    assert "securitySchemes" not in openapi.document(Validation(), keys=False)["components"]
    assert "security" not in DOCUMENT["paths"]["/health"]["get"]
