"""Names of fields for users: `max_num_seqs`, not its path in a file inside a manifest."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rayllm_ctl.changes.fields import FieldPath, format_path
from rayllm_ctl.changes.serve import Judged
from rayllm_ctl.model.observed.changes import FieldChange

_WHERE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), place)
    for pattern, place in (
        (r"spec\.serveConfigV2\.applications\[[^]]*\]\.deployments\[([^]]*)\]\.", r"\1"),
        (r"spec\.serveConfigV2\.applications\[([^]]*)\]\.", ""),
        (r"spec\.serveConfigV2\.", "Serve"),
        (r"spec\.(?:rayClusterConfig\.)?headGroupSpec\.", "head"),
        (r"spec\.(?:rayClusterConfig\.)?workerGroupSpecs\[([^]]*)\]\.", r"group \1"),
        (r"spec\.rayClusterConfig\.", ""),
    )
)
"""Parts of an object: the prefix of their paths, and their names."""

_SHORTER: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"^args\.(?:llm_configs\[\d+\]|(?:llm|prefill|decode)_config)\.", ""),
        (r"^(?:engine_kwargs|model_loading_config)\.", ""),
        (r"^args\.(?:engine_kwargs|transformers)\.", ""),
        (r"^autoscaling_config\.", ""),
        (r"^user_config\.(?=gateway\b|models\b)", ""),
        (r"^template\.spec\.volumes\[serving\]\.configMap\..*$", "code of models and proxies"),
        (r"^runtime_env\.env_vars\.RAYLLM_INGRESS_CODE$", "code of the ingress"),
        (r"^template\.spec\.containers\[ray-(?:head|worker)\]\.", ""),
        (r"^template\.(?:spec\.)?", ""),
        (r"^env\[([^]]*)\](?:\.value)?$", r"env \1"),
        (r"^resources\.(limits|requests)(?:\.(\w+)|\[\"([^\"]+)\"\])$", r"\2\3 \1"),
        (r"^metadata\.(label|annotation)s(?:\[\"([^\"]+)\"\]|\.(.+))$", r"\1 \2\3"),
        (r"^spec\.", ""),
    )
)


def named(judged: Iterable[Judged]) -> tuple[FieldChange, ...]:
    """The differences as changes of fields; equal ones in several parts of the object become one."""
    found: dict[tuple[str, str, str, str], FieldChange] = {}
    for difference, effect in judged:
        path = format_path(difference.path)
        where, field = _name(path, difference.path)
        key = (field, repr(difference.old), repr(difference.new), effect)
        first = found.get(key)
        places = (*(first.where if first else ()), *([where] if where else ()))
        found[key] = FieldChange(
            first.path if first else path, field, tuple(dict.fromkeys(places)), difference.old, difference.new, effect
        )
    return tuple(found.values())


def _name(path: str, parts: FieldPath) -> tuple[str, str]:
    """The part of the object that contains the field, and the field."""
    where = ""
    for pattern, place in _WHERE:
        match = pattern.match(path)
        if match:
            where, path = match.expand(place), path[match.end() :]
            break
    for pattern, text in _SHORTER:
        path = pattern.sub(text, path)
    return where, path or parts[-1].strip("[]")
