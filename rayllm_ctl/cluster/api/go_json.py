"""JSON byte for byte as Go's encoding/json writes a map.

The API server stores `data` of a ControllerRevision, which is immutable, as it was sent. A strategic merge patch of the
object encodes it again, and is rejected as a change of `data` unless the bytes are equal. The garbage collector sends
such patches when an owner is deleted with its children left: it would never let go of the owner.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, Final

_ESCAPED: Final = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})
_FIXED_FROM, _FIXED_BELOW = 1e-6, 1e21
"""Between these, Go writes a number without an exponent (encoding/json, floatEncoder)."""


def go_json(value: Any) -> str:
    """`value`, of JSON's types, with sorted keys and without spaces. Raises TypeError for another type."""
    if isinstance(value, dict):
        # YAML of users may have a key such as 1 or true, which is a string in JSON.
        parts = {name if isinstance(name, str) else json.dumps(name): part for name, part in value.items()}
        return "{" + ",".join(f"{_text(name)}:{go_json(parts[name])}" for name in sorted(parts)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(go_json, value)) + "]"
    if isinstance(value, float):
        return _number(value)
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPED)


def _number(value: float) -> str:
    text = repr(value)
    if _FIXED_FROM <= abs(value) < _FIXED_BELOW:
        return f"{Decimal(text):f}".removesuffix(".0")
    return text.removesuffix(".0").replace("e-0", "e-")
