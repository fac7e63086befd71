"""Results of `check` for a cluster and the requirements of a service."""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.text.hint import Hint


@dataclass(frozen=True)
class Check:
    """One finding. ok None: a warning, or what could not be found out. hints: what to type, or to change."""

    category: str
    name: str
    ok: bool | None
    detail: str = ""
    hints: tuple[Hint, ...] = ()


@dataclass(frozen=True)
class Need:
    """An object that a pod names, and one of its keys; key empty: the object is enough."""

    kind: str
    name: str
    key: str = ""
