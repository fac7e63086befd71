"""The plan of a model on the Transformers engine. In bytes unless noted otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from rayllm_ctl.frozen import dataclass


@dataclass(frozen=True)
class DevicePlan:
    """Use of the memory of one GPU of a replica, or of its pod for layers that stay in CPU memory.

    device: the number of the GPU, or "cpu". layers: decoder layers that lie on it. reserved_bytes: room on GPU 0 for
    the largest layer that is copied there from CPU memory. margin_bytes: kept free for what is not measured.
    """

    device: str
    total_bytes: int
    layers: int
    weights_bytes: int
    kv_cache_bytes: int = 0
    activation_bytes: int = 0
    context_bytes: int = 0
    reserved_bytes: int = 0
    margin_bytes: int = 0

    @property
    def needed_bytes(self) -> int:
        """What is surely taken: all but the margin."""
        taken = self.weights_bytes + self.kv_cache_bytes + self.activation_bytes
        return taken + self.context_bytes + self.reserved_bytes


@dataclass(frozen=True)
class TransformersPlan:
    """The engine's settings, and the memory of its devices.

    max_num_seqs: requests generated at once. gpus: those of one pod, 0 on CPUs; cpus: Ray's logical CPUs of a replica.
    max_memory: by device, in the units of accelerate; empty: not limited. weights_bytes: of the whole model as loaded;
    kv_request_bytes: the cache of one request of max_model_len. devices: empty if the model cannot be seen.
    """

    dtype: str
    max_model_len: int
    max_num_seqs: int
    gpus: int
    cpus: int
    max_memory: Mapping[str, str]
    quantization: str | None
    trust_remote_code: bool
    weights_bytes: int
    kv_request_bytes: int
    devices: tuple[DevicePlan, ...] = ()
