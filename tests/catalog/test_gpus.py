"""The GPU catalog: names, figures that can be true, labels that tell GPUs apart."""

from __future__ import annotations

import json
import re

import pytest

from rayllm_ctl.catalog import data, gpus
from rayllm_ctl.errors import UsageError
from rayllm_ctl.model.kube.quantities import GIB
from rayllm_ctl.model.plan.hardware import GPU

ASKED_FOR = {
    "T4", "V100-16GB", "V100-32GB", "A10G", "L4", "L20", "L40S", "A40", "RTX-A6000", "RTX-6000-Ada", "RTX-3090",
    "RTX-4090", "RTX-5090", "RTX-5070-Ti", "A100-40GB", "A100-80GB", "H100-80GB", "H100-NVL-94GB", "GH200-96GB",
    "H200-141GB", "H20-96GB", "B200-180GB", "B300", "GB200", "GB300", "MI300X", "MI325X", "MI355X",
}  # fmt: skip
RAY_TYPES = {
    "V100", "T4", "A10G", "L4", "L40S", "A100", "H100", "H200", "H20", "B200", "B300", "GB200", "GB300", "RTX-PRO-6000",
    "AMD-Instinct-MI210", "AMD-Instinct-MI250X-MI250", "AMD-Instinct-MI300X-OAM", "AMD-Instinct-MI325X-OAM",
    "AMD-Instinct-MI350X-OAM", "AMD-Instinct-MI355X-OAM",
}  # fmt: skip
"""Names in Ray 2.60's ray.util.accelerators that its own detection gives to nodes."""

ALL = list(gpus.load_gpus().values())
ENTRIES = {entry["name"]: entry for entry in json.loads(data.read_data("gpus.json"))}


def test_every_gpu_that_was_asked_for_is_there() -> None:
    assert len(ALL) >= 30
    assert set(gpus.load_gpus()) >= ASKED_FOR


@pytest.mark.parametrize("gpu", ALL, ids=lambda gpu: gpu.name)
def test_figures_can_be_true(gpu: GPU) -> None:
    entry = ENTRIES[gpu.name]
    nominal = entry["nominalGB"]
    assert 0.9 * nominal <= gpu.memory_bytes / GIB <= nominal
    assert gpu.memory_bytes <= entry["driverMiB"] * 2**20
    assert 0.2e12 <= gpu.bandwidth <= 10e12
    assert 0 < gpu.link_bandwidth < gpu.bandwidth
    assert gpu.flops["fp16"] >= 10e12
    assert gpu.interconnect in ("nvlink", "pcie", "xgmi")
    assert gpu.resource == {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}[gpu.vendor]
    assert gpu.ray_accelerator_type is None or gpu.ray_accelerator_type in RAY_TYPES
    assert gpu.sources
    assert gpu.node_labels
    assert gpu.shapes
    assert all(shape.cpus >= 2 * shape.gpus and shape.memory_gib >= 10 * shape.gpus for shape in gpu.shapes)


@pytest.mark.parametrize("gpu", [gpu for gpu in ALL if gpu.compute_capability], ids=lambda gpu: gpu.name)
def test_types_follow_from_the_compute_capability(gpu: GPU) -> None:
    capability = gpu.compute_capability or (0, 0)
    assert ("bf16" in gpu.flops) == (capability >= (8, 0))
    assert ("fp8" in gpu.flops) == (capability >= (8, 9))
    assert ("fp4" in gpu.flops) == (capability >= (10, 0))
    if "fp8" in gpu.flops:
        assert gpu.flops["fp8"] == pytest.approx(2 * gpu.flops["bf16"], rel=0.03)


def test_memory_from_the_drivers_figure_is_near_what_torch_reports() -> None:
    own = [entry for entry in ENTRIES.values() if not entry.get("unifiedMemory")]
    known = [entry for entry in own if entry["vendor"] == "nvidia" and entry["torchGiB"]]
    near = [e for e in known if abs(gpus.torch_memory(e["driverMiB"]) / GIB - e["torchGiB"]) <= 0.2]
    assert (len(near), len(known)) == (24, 26)


def test_a_gpu_without_a_measured_total_says_so() -> None:
    assert not gpus.find_gpu("A40").memory_measured
    assert gpus.find_gpu("L40S").memory_measured


@pytest.mark.parametrize(
    ("said", "chosen", "others"),
    [
        ("A100", "A100-80GB", ["A100-40GB"]),
        ("NVIDIA V100", "V100-16GB", ["V100-32GB"]),
        ("gh200", "GH200-96GB", ["GH200-144GB"]),
        ("h20", "H20-96GB", ["H20-141GB"]),
        ("h100", "H100-80GB", ["H100-NVL-94GB"]),
    ],
)
def test_a_name_of_several_sizes_is_said_to_be_one(said: str, chosen: str, others: list[str]) -> None:
    note = gpus.reading(said)
    assert note.startswith(f"GPU {said} is read as {chosen} (")
    assert all(f"{other} (" in note.partition("may also mean")[2] for other in others)


@pytest.mark.parametrize("said", ["A100-40GB", "a100-80", "V100-SXM2-16GB", "L4", "A10", "H200", "B200", "RTX-3090"])
def test_a_name_of_one_size_needs_no_note(said: str) -> None:
    assert gpus.reading(said) == ""


def test_gpus_of_a_machine_may_have_memory_of_their_own() -> None:
    card = gpus.find_gpu("A10")
    machine = card.on("Standard_NV36ads_A10_v5")
    assert (round(card.memory_bytes / GIB, 2), round(machine.memory_bytes / GIB, 2)) == (22.06, 23.9)
    assert [shape.instance_type for shape in machine.shapes] == ["Standard_NV36ads_A10_v5"]
    assert card.on("VM.GPU.A10.1").memory_bytes == card.memory_bytes
    assert card.on("nowhere") is card
    larger = card.larger()
    assert larger is not None
    assert larger.memory_bytes == machine.memory_bytes
    assert machine.larger() is None


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("h100", "H100-80GB"),
        ("H100-SXM", "H100-80GB"),
        ("nvidia-h100-80gb", "H100-80GB"),
        ("NVIDIA-H100-80GB-HBM3", "H100-80GB"),
        ("h100_nvl", "H100-NVL-94GB"),
        ("a100", "A100-80GB"),
        ("A100 40GB", "A100-40GB"),
        ("GeForce RTX 4090", "RTX-4090"),
        ("4090", "RTX-4090"),
        ("Tesla-T4", "T4"),
        ("amd mi300x", "MI300X"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("gh200", "GH200-96GB"),
        ("b200", "B200-180GB"),
        ("NVIDIA-B300-SXM6-AC", "B300"),
    ],
)
def test_names_as_people_write_them(said: str, name: str) -> None:
    assert gpus.find_gpu(said).name == name


def test_names_mean_one_gpu() -> None:
    owners: dict[str, str] = {}
    for gpu in ALL:
        for name in (gpu.name, *gpu.aliases):
            assert gpus.canonical(name) == gpu.name, name
            assert owners.setdefault(name.lower(), gpu.name) == gpu.name


def test_an_unknown_name_brings_the_nearest() -> None:
    with pytest.raises(UsageError, match='unknown GPU "H1000"') as caught:
        gpus.find_gpu("H1000")
    assert "H100-80GB" in caught.value.hints[0]
    with pytest.raises(UsageError):
        gpus.find_gpu("")


def test_a_label_names_one_kind() -> None:
    """Two kinds with the same label would send pods to the wrong nodes."""
    owners: dict[tuple[str, str], str] = {}
    for gpu in ALL:
        for key, values in gpu.node_labels.items():
            for value in values:
                assert owners.setdefault((key, value), gpu.name) == gpu.name, (key, value)


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("cloud.google.com/gke-accelerator", "nvidia-tesla-a100", "A100-40GB"),
        ("cloud.google.com/gke-accelerator", "nvidia-h100-mega-80gb", "H100-80GB"),
        ("karpenter.k8s.aws/instance-gpu-name", "l40s", "L40S"),
        ("node.kubernetes.io/instance-type", "p4de.24xlarge", "A100-80GB"),
        ("node.kubernetes.io/instance-type", "Standard_ND96isr_H200_v5", "H200-141GB"),
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3", "H100-80GB"),
    ],
)
def test_nodes_of_clouds_are_recognised(key: str, value: str, name: str) -> None:
    assert [gpu.name for gpu in gpus.by_node_label(key, value)] == [name]


def test_a_label_that_says_nothing_of_gpus() -> None:
    assert gpus.by_node_label("node.kubernetes.io/instance-type", "m5.large") == ()


def test_ray_has_no_type_for_these() -> None:
    """Naming a type that Ray's nodes do not offer would leave replicas pending for ever."""
    for name in ("A10", "L40", "GH200-96GB", "RTX-4090", "H800"):
        assert gpus.find_gpu(name).ray_accelerator_type is None


def test_most_gpus_of_one_machine() -> None:
    assert gpus.find_gpu("H100-80GB").max_per_node == 8
    assert gpus.find_gpu("A100-40GB").max_per_node == 16
    assert gpus.find_gpu("GB200").max_per_node == 4


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", "the MIG partition 3g.40gb", "--gpu A100-80GB    # the whole GPU"),
        ("L4-SHARED", "a time-shared GPU", "--gpu L4    # the whole GPU"),
        (
            "nvidia.com/mig-3g.40gb",
            "KubeRay counts whole GPUs",
            "rayllm-ctl gpus    # lists the GPUs that can be planned",
        ),
        (
            "NVIDIA-A10-24Q",
            "a vGPU profile with 24 GB",
            "--gpu A10 --node-selector node.kubernetes.io/instance-type=Standard_NV36ads_A10_v5    # with 23.9 GiB",
        ),
    ],
)
def test_parts_of_gpus_are_not_taken_for_whole_ones(name: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as raised:
        gpus.canonical(name)
    assert hint in raised.value.hints


def test_a_node_selector_of_cpus_leaves_the_gpus_beside_them() -> None:
    known = gpus.load_gpus()
    arm = {gpu.name for gpu in gpus.selected({"kubernetes.io/arch": "arm64"}, None, known)}
    assert {"GH200-96GB", "GB200-186GB"} & arm
    assert "L4" not in arm
    with pytest.raises(UsageError, match=r"nodes with the label kubernetes.io/arch=arm64 have .*, not L4"):
        gpus.selected({"kubernetes.io/arch": "arm64"}, known["L4"], known)
    assert "L4" in {gpu.name for gpu in gpus.selected({"kubernetes.io/arch": "amd64"}, None, known)}


def test_a_node_selector_names_the_kinds_of_gpus() -> None:
    known = gpus.load_gpus()
    product = {"nvidia.com/gpu.product": "NVIDIA-L40S"}
    assert [gpu.name for gpu in gpus.selected(product, None, known)] == ["L40S"]
    assert [gpu.name for gpu in gpus.selected({"disk": "ssd"}, None, known)] == list(known)
    (machine,) = gpus.selected({"node.kubernetes.io/instance-type": "g5.12xlarge"}, None, known)
    assert (machine.name, machine.max_per_node) == ("A10G", 4)
    with pytest.raises(UsageError, match="have L40S, not L4"):
        gpus.selected(product, known["L4"], known)
    with pytest.raises(UsageError, match="a time-shared GPU"):
        gpus.selected({"nvidia.com/gpu.replicas": "4"}, known["L4"], known)


def test_the_memory_of_gb10_is_that_of_its_machine() -> None:
    """Total 121.69 GiB by torch in logs of vLLM 0.23 to 0.28; 273 GB/s by NVIDIA."""
    spark = gpus.find_gpu("dgx-spark")
    assert (spark.name, spark.unified_memory, spark.host_architecture) == ("GB10", True, "arm64")
    assert spark.compute_capability == (12, 1)
    assert [gpu.name for gpu in gpus.load_gpus().values() if gpu.unified_memory] == ["GB10"]
