"""Forms with files: size, key and fields are checked, the body passes as it is."""

from __future__ import annotations

import pytest

from tests.serving.gateway.upstream import Keys, gateway

PATH = "/v1/audio/transcriptions"
TYPE = {"content-type": "multipart/form-data; boundary=XX"}
FILE = (
    b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    b"\x00--X\r\n\xff\r\n"
)


def field(name: str, value: str) -> bytes:
    return f'--XX\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--XX--\r\n"


def test_a_form_passes_as_it_is() -> None:
    case = gateway(keys=Keys())
    body = form(FILE, field("model", "small"), field("temperature", "0.5"), field("stream", "false"))
    headers = {**TYPE, "authorization": "Bearer k-reader"}
    assert case.call("POST", PATH, body).status == 401
    response = case.call("POST", PATH, body, headers)
    assert (response.status, response.json) == (200, {"text": "hello"})
    assert case.upstream.bodies == [body]
    assert case.call("POST", PATH, form(FILE, field("model", "big")), headers).status == 403


@pytest.mark.parametrize(
    ("body", "headers", "status", "param"),
    [
        (form(FILE, field("model", "none")), TYPE, 404, "model"),
        (form(FILE), TYPE, 400, "model"),
        (form(field("model", "small")), TYPE, 400, "file"),
        (form(field("model", "small"), field("file", "a")), TYPE, 400, "file"),
        (form(FILE, field("model", "small"), field("model", "big")), TYPE, 400, "model"),
        (form(FILE, field("model", "small"), field("temperature", "warm")), TYPE, 400, "temperature"),
        (form(FILE, field("model", "small"), field("temperature", "nan")), TYPE, 400, "temperature"),
        (form(FILE, field("model", "small"), field("response_format", "xml")), TYPE, 400, "response_format"),
        (form(FILE, field("model", "small"), field("stream", "maybe")), TYPE, 400, "stream"),
        (FILE, TYPE, 400, None),
        (b"", TYPE, 400, None),
        (form(b"--XX\r\n\r\n\r\n"), TYPE, 400, None),
        (form(FILE), {"content-type": "multipart/form-data"}, 415, None),
        (b"{}", {"content-type": "application/json"}, 415, None),
        (form(FILE, field("model", "a" * 2000)), TYPE, 413, None),
    ],
)
def test_forms(body: bytes, headers: dict[str, str], status: int, param: str | None) -> None:
    case = gateway({"validation": {"maxBodyBytes": 1500}})
    response = case.call("POST", PATH, body, headers)
    assert (response.status, response.error["param"]) == (status, param), response.body
    assert not case.upstream.bodies
