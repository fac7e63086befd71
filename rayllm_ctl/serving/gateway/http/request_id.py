"""The id of a request, of which every response has one."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rayllm_ctl.serving.gateway.steps import Headers

_VISIBLE = re.compile(rb"[\x21-\x7e]{1,128}")


def request_id(headers: Headers) -> str:
    """The client's x-request-id if it is at most 128 visible ASCII characters, otherwise a new one."""
    found = [value for key, value in headers if key == b"x-request-id"]
    if len(found) == 1 and _VISIBLE.fullmatch(found[0]):
        return found[0].decode()
    return secrets.token_hex(16)
