"""What the memory planner is asked and what it answers. Bytes are per GPU, of the fullest rank."""

from __future__ import annotations

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.plan import Band, MemoryPlan, Reason


@dataclass(frozen=True)
class Formula:
    """One line of the arithmetic: what it is called, the formula with its numbers, and its value in `unit`."""

    name: str
    text: str
    value: float
    unit: str = "bytes"


@dataclass(frozen=True)
class KVGroup:
    """Layers whose blocks are allotted together. kind: full, window, chunk, state, or of latent attention mla, indexer,
    compressed, pooled or ring (model.layers).

    page_bytes: one block of one layer; blocks_per_request: at max_model_len.
    """

    kind: str
    layers: int
    block_size: int
    page_bytes: int
    blocks_per_request: int


@dataclass(frozen=True)
class MemoryEstimate:
    """The answer. `plan` is what users see; the rest explains it.

    kv_bytes_per_request: KV cache of one request of max_model_len. problems: what lies outside the budget and
    would still end the start-up (empty: nothing known). longest_context: the longest that one request could have.
    most_sequences: the largest max_num_seqs that starts (None: no limit). cannot_load: why the weights do not load.
    leaner_sampler: bytes that the profile run takes less with another sampler, where one request of max_model_len fits
    with that one alone and nothing says which of them is installed; 0 otherwise.
    """

    plan: MemoryPlan
    activation: Band
    non_torch: Band
    cuda_graphs: Band
    block_size: int
    bytes_per_block: int
    blocks: Band
    groups: tuple[KVGroup, ...]
    kv_bytes_per_request: int
    longest_context: Band
    formulas: tuple[Formula, ...]
    problems: tuple[Reason, ...] = ()
    most_sequences: Band | None = None
    cannot_load: Reason | None = None
    leaner_sampler: int = 0

    @property
    def holds_one(self) -> tuple[bool, bool, bool]:
        """Whether one request of max_model_len fits at the low, typical and high end of the band."""
        band = self.plan.max_concurrency
        return band.low >= 1, band.typical >= 1, band.high >= 1
