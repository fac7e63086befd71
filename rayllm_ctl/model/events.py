"""Events of a workflow. A console draws them; nothing else depends on how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rayllm_ctl.frozen import dataclass

if TYPE_CHECKING:
    from rayllm_ctl.model.observed.health import Health
    from rayllm_ctl.model.observed.model_downloads import ModelDownload
    from rayllm_ctl.model.plan.plan import Plan


@dataclass(frozen=True)
class Planned:
    plan: Plan


@dataclass(frozen=True)
class Rendered:
    """The manifests that are about to be checked and applied: for whoever prints or records them, not for a display."""

    manifests: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Checked:
    """A preflight check: `ok` None is a warning."""

    name: str
    ok: bool | None
    detail: str = ""


@dataclass(frozen=True)
class Applied:
    """`action` is created, configured, unchanged or deleted. dry_run: nothing was written."""

    kind: str
    name: str
    namespace: str
    action: str
    dry_run: bool = False


@dataclass(frozen=True)
class Observed:
    """A new observation of the service while waiting; `elapsed` in seconds since the wait began."""

    health: Health
    elapsed: float


@dataclass(frozen=True)
class Noted:
    """A line for the user that is not a change of state."""

    message: str


@dataclass(frozen=True)
class Ready:
    """The service answers, `elapsed` seconds after the wait began."""

    name: str
    namespace: str
    elapsed: float
    health: Health


@dataclass(frozen=True)
class Downloading:
    """A new look at the Job that downloads a model, `elapsed` seconds after the first."""

    download: ModelDownload
    namespace: str
    elapsed: float


Event = Planned | Checked | Applied | Observed | Noted | Downloading | Ready
