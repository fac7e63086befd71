"""The versions of KubeRay whose objects are known, and which of them stands for any other."""

from __future__ import annotations

import re

VERSIONS = ("1.4", "1.5", "1.6", "1.7")
"""Those that render/schemas holds, oldest first. Of their patch releases only 1.5.1 changed objects (authOptions)."""

DEFAULT = "1.6"
"""What is checked against where no version is given: the one that the tests of this project run on a cluster."""

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})?(?:[-+][\w.+-]+)?")


def parse_version(text: str) -> tuple[int, int]:
    """Major and minor number of a version such as 1.6, v1.6.2 or 1.7.0-rc.0. ValueError if it is none."""
    match = _VERSION.fullmatch(text)
    if not match:
        raise ValueError(f'"{text}" is not a valid version of KubeRay, such as {DEFAULT} or {DEFAULT}.2')
    return int(match[1]), int(match[2])


def known_version(text: str) -> tuple[str, str]:
    """The known version nearest to `text`, and a note if it is not the same; else the note is empty."""
    wanted = parse_version(text)
    for version in VERSIONS:
        if parse_version(version) >= wanted:
            found = version
            break
    else:
        found = VERSIONS[-1]
    if parse_version(found) == wanted:
        return found, ""
    age = "newer" if wanted > parse_version(found) else "older"
    return found, f"KubeRay {text} is {age} than those known ({VERSIONS[0]} to {VERSIONS[-1]}): checked as {found}"
