"""The explanation of a field of the spec file."""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class FieldExplanation:
    """One field. type: as kubectl writes it ("[]Volume", "map[string]string"). default: as a spec file has it, or "".

    attribute: its dotted path in the LLMService, as flags name it; "" inside lists. fields: those of a section.
    """

    path: str
    type: str
    description: str
    required: bool
    default: str
    values: tuple[str, ...]
    attribute: str
    fields: tuple[FieldExplanation, ...]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]
