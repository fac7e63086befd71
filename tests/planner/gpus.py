"""GPUs for tests: made by hand, so that a change of the catalog does not move a test."""

from __future__ import annotations

from rayllm_ctl.model.plan.hardware import GPU, NodeShape

H100 = GPU(
    name="H100-80GB",
    vendor="nvidia",
    memory_bytes=int(79.19 * 2**30),
    bandwidth=3.35e12,
    flops={"bf16": 989e12, "fp16": 989e12, "fp8": 1978e12},
    architecture="Hopper",
    compute_capability=(9, 0),
    interconnect="nvlink",
    link_bandwidth=450e9,
    ray_accelerator_type="H100",
    shapes=(NodeShape("aws", "p5.48xlarge", 8, 192, 2048), NodeShape("gcp", "a3-highgpu-1g", 1, 26, 234)),
    price_per_hour={"aws": 4.9, "gcp": 4.2, "azure": 5.5},
    price_source="test",
)
L4 = GPU(
    name="L4",
    vendor="nvidia",
    memory_bytes=int(22.03 * 2**30),
    bandwidth=0.3e12,
    flops={"bf16": 121e12, "fp16": 121e12, "fp8": 242e12},
    architecture="Ada",
    compute_capability=(8, 9),
    link_bandwidth=32e9,
    ray_accelerator_type="L4",
    shapes=(NodeShape("aws", "g6.xlarge", 1, 4, 16), NodeShape("aws", "g6.48xlarge", 8, 192, 768)),
    price_per_hour={"aws": 0.8, "gcp": 0.7},
    price_source="test",
)
T4 = GPU(
    name="T4",
    vendor="nvidia",
    memory_bytes=int(14.57 * 2**30),
    bandwidth=0.32e12,
    flops={"fp16": 65e12, "int8": 130e12},
    architecture="Turing",
    compute_capability=(7, 5),
    link_bandwidth=16e9,
    ray_accelerator_type="T4",
    shapes=(NodeShape("aws", "g4dn.xlarge", 1, 4, 16),),
)
