"""Between the loop and what it runs."""

from __future__ import annotations

from typing import Protocol

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class Key:
    """An object that is reconciled: an LLMService or a BatchJob."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.namespace}/{self.name}"


class Reconciler(Protocol):
    """Brings the cluster closer to what an object asks for."""

    def reconcile(self, key: Key) -> float | None:
        """Seconds until the object is due again; None: when something changes. Raises UserError, and anything else."""
