"""How fast weights reach the GPUs, by the way they come: bytes/s as bands, with what was measured.

Figures are those of public logs and documents; what no source states is marked as an assumption. GB are 10^9 bytes.

  hub      Llama-3.2-1B 2.5 GB in 14.6 s (vllm#14063); Mistral-7B 14.5 GB in 31 s (kaito#982); 960 GB into EFS in 31 min
           (modelplane#204); 40 MB/s for one file and 300 MB/s for ten (huggingface_hub#2658); 30 MB/s at a desktop
           (vllm#12916); DeepSeek-V3.1, 671B parameters in FP8, in 176 s (llm-d#484). The upper end of the band is that
           of a link of 15 Gbit/s, an assumption.
  disk     Llama-3-8B on gp3 16 GB in 48 s with safetensors (run:ai's benchmark) and 1.1 GB/s read in parallel, io2
           2.1 GB/s (benchmarks in run-ai/runai-model-streamer); Llama-3-8B on A100 22 s; 8 GiB from a slow
           disk 27 s (vllm#44106); Qwen3-30B on local NVMe 61 GB in 57 s, DeepSeek-R1 at TP 8 4.3 GB/s (vLLM's page on
           InstantTensor).
  network  EFS 894 GiB on two nodes in 43 min, 0.19 GB/s a node (modelplane#204); DeepSeek-V3 at TP 8 1,500 s and
           3,660 s, with prefetch 435 s and 215 s (vllm#36012), which vLLM does by itself on NFS if the files fit into
           90 % of the memory (vllm#37673, #39422); EFS at most 1,500 MiB/s a client, 500 MiB/s if not elastic (AWS);
           Filestore zonal 260 MiB/s per TiB (Google); Weka 4.6 and VAST 2.8 GB/s (run:ai's benchmark).
  bucket   S3 to EBS 0.5 GB/s (ccd.dev), at most 5 Gbit/s a connection (AWS re:Post). The ends of the band are an
           assumption: one connection, and a link of 16 Gbit/s.
  stream   Llama-3-8B from S3 3.8 GB/s (run:ai's benchmark); 0.39 GB/s (runai-model-streamer#13); 0.8 GB/s (#120);
           61 GiB in 16 s on two GPUs (KAITO 0.12). That one node reads each file once is an assumption.
  image    15 to 20 GB in 4 to 6 min (AWS on SOCI); 5.4 GB in 120 s, 40 s if layers are unpacked in parallel
           (containerd#8881); Mistral-7B more than 20 min (kaito#982).
  memory   Llama-3-8B 5.4 s from the page cache; 61 GB in 4.6 to 8.4 s, 145 GB at TP 4 in 23 s (vllm#52462).
"""

from __future__ import annotations

from typing import Literal

from rayllm_ctl.frozen import dataclass
from rayllm_ctl.model.plan.plan import Band, StorageKind
from rayllm_ctl.model.spec.model_storage import HUB, ModelStorage
from rayllm_ctl.model.spec.service import LLMService

HUB_RATE = Band(0.1e9, 0.5e9, 1.5e9)
DISK_RATE = Band(0.3e9, 1.5e9, 4.0e9)
NETWORK_RATE = Band(0.15e9, 0.8e9, 2.5e9)
BUCKET_RATE = Band(0.2e9, 0.5e9, 2.0e9)
STREAM_RATE = Band(0.35e9, 1.5e9, 4.5e9)
IMAGE_RATE = Band(0.015e9, 0.07e9, 0.2e9)
MEMORY_RATE = Band(3.0e9, 6.0e9, 13.0e9)

NO_TIME = Band(0.0, 0.0, 0.0)

MirrorSource = Literal["hub", "bucket"]

_READS = {
    "hub-cache": NETWORK_RATE,
    "claim": NETWORK_RATE,
    "bucket-stream": STREAM_RATE,
}
"""Rates at which a node loads from storage that other nodes share; of the other ways it loads from its disk."""

_FETCHES = {"hub": HUB_RATE, "hub-cache": HUB_RATE, "bucket-copy": BUCKET_RATE, "image": IMAGE_RATE}
"""Rates at which the files come to the node, or to the shared cache, before the engine loads them."""

_ONE_NODE = {"ReadWriteOnce", "ReadWriteOncePod"}


@dataclass(frozen=True)
class Origin:
    """Where the pods have the weights from. mirror: from where a Job downloads them first, None without a Job."""

    way: StorageKind
    mirror: MirrorSource | None = None


def origin_of(service: LLMService) -> Origin:
    """The way that `service` chose: by default each pod downloads from the Hub."""
    if service.model.path is not None:
        return Origin("path")
    storage = service.storage.model
    return Origin("hub") if storage is None else _origin(storage)


def _origin(storage: ModelStorage) -> Origin:
    mirror: MirrorSource | None = None
    filled, bucket, origin = storage.claim, storage.object_store, storage.mirror
    claim = None
    if origin is not None:
        from_hub = origin.from_ == HUB or origin.from_.startswith("https://")
        mirror, claim, bucket = ("hub" if from_hub else "bucket"), origin.to.claim, origin.to.object_store
    if filled is not None or claim is not None:
        modes = set(claim.create.access_modes) if claim is not None and claim.create is not None else set()
        # What an existing claim is on shows only in the cluster: the slower is planned.
        return Origin("claim-on-disk" if modes and modes <= _ONE_NODE else "claim", mirror)
    if bucket is not None:
        return Origin("bucket-stream" if bucket.load == "stream" else "bucket-copy", mirror)
    if storage.hub is not None:
        return Origin("hub-cache")
    return Origin("image" if storage.image is not None else "hub")


def fetch_seconds(way: StorageKind, files_bytes: float) -> Band:
    """Seconds until the files are where the engine loads them. Every node of a replica fetches all of them: vLLM picks
    the shards after that."""
    rate = _FETCHES.get(way)
    return divide(files_bytes, rate) if rate else NO_TIME


def load_seconds(way: StorageKind, files_bytes: float, nodes: int) -> Band:
    """Seconds in which the GPUs of a replica are filled; each node reads its share."""
    return divide(files_bytes / nodes, _READS.get(way, DISK_RATE))


def mirror_seconds(origin: Origin, files_bytes: float) -> Band | None:
    """Seconds of the Job that downloads the files; None without one."""
    if origin.mirror is None:
        return None
    return divide(files_bytes, HUB_RATE if origin.mirror == "hub" else BUCKET_RATE)


def divide(size: float, rate: Band) -> Band:
    return Band(size / rate.high, size / rate.typical, size / rate.low)


def add(*bands: Band) -> Band:
    return Band(sum(b.low for b in bands), sum(b.typical for b in bands), sum(b.high for b in bands))
