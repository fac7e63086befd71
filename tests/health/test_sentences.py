"""What a sentence of an engine, a hub or a driver stands for, and that the hint is about the sentence."""

from __future__ import annotations

import pytest

from rayllm_ctl.health.sentences.classify import classify, find_sentence, sentence_hints
from rayllm_ctl.health.sentences.exceptions import read_failure
from rayllm_ctl.health.sentences.sentences import SENTENCES

VALUES = {"deploy": "deploy", "restart": "restart", "exec": "exec", "node": "n1", "ns": "team"}
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 22 GiB"

# Text, files and functions of its traceback, the code, words that its hints have, and words that they must not have.
CASES: tuple[tuple[str, str, str, list[str], list[str]], ...] = (
    # Another process.
    ("ValueError: Free memory on device cuda:1 (11.5/22.3 GiB) on startup is less than desired GPU memory utilization "
     "(0.92, 20.5 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
     "", "EngineOutOfMemory", ["process", "--gpu-memory-utilization 0.51"], ["--max-model-len"]),
    ("AssertionError: Error in memory profiling. Initial free memory 20.1 GiB, current free memory 21.0 GiB. This "
     "happens when other processes sharing the same container release GPU memory while vLLM is profiling",
     "", "EngineOutOfMemory", ["process"], ["--max-model-len"]),
    # Requests at a time.
    ("RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering "
     "`max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
     "", "EngineOutOfMemory", ["--max-num-seqs 512", "--gpu-memory-utilization"], ["--max-model-len"]),
    ("ValueError: max_num_seqs (256) exceeds available Mamba cache blocks (97). Each decode sequence requires one",
     "", "EngineOutOfMemory", ["--max-num-seqs 97"], ["--max-model-len"]),
    # The KV cache.
    ("ValueError: To serve at least one request with the model's max seq len (131072), (16.00 GiB KV cache is needed, "
     "which is larger than the available KV cache memory (5.20 GiB). Based on the available memory, the estimated "
     "maximum model length is 42592. Try increasing", "", "EngineOutOfMemory", ["--max-model-len 42592"], []),
    ("ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV "
     "cache (11200). Try increasing `gpu_memory_utilization`", "", "EngineOutOfMemory", ["--max-model-len 11200"], []),
    ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
     "the engine", "", "EngineOutOfMemory", ["--tp N", "--gpu-memory-utilization"], ["--max-model-len"]),
    # The same text at different stages.
    (OOM, "vllm/v1/worker/gpu_worker.py load_model", "EngineOutOfMemory", ["--tp N", "--quantization"],
     ["--max-model-len", "--max-num-seqs"]),
    (OOM, "gpu_model_runner.py profile_run gpu_model_runner.py _dummy_run", "EngineOutOfMemory",
     ["--max-num-batched-tokens"], ["--max-model-len"]),
    (OOM, "gpu_model_runner.py capture_model", "EngineOutOfMemory", ["enforce_eager"], ["--max-model-len"]),
    (OOM, "", "EngineOutOfMemory", ["nvidia-smi"], ["--max-model-len"]),
    ("RuntimeError: Failed to load model - not enough GPU memory. Try lowering --gpu-memory-utilization to free memory "
     "for weights, increasing --tensor-parallel-size, or using --quantization.",
     "", "EngineOutOfMemory", ["--tp N", "--quantization"], ["--max-model-len"]),
    ("ValueError: Available memory on node 0 (2.5/7.77 GiB) on startup is less than desired CPU memory utilization",
     "", "EngineOutOfMemory", ["--memory"], ["--max-model-len"]),
    ("ValueError: Not enough memory. Please try to increase VLLM_CPU_KVCACHE_SPACE",
     "", "EngineOutOfMemory", ["--memory"], ["--max-model-len"]),
    # Driver, image, device.
    ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver",
     "", "AcceleratorFault", ["--image", "driver"], ["--max-model-len"]),
    ("RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
     "NumCudaDevices() that might have already set an error? Error 804: forward compatibility was attempted on non "
     "supported HW", "", "AcceleratorFault", ["--image", "driver"], []),
    ("RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
     "NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
     "", "AcceleratorFault", ["fabric manager"], ["--image"]),
    ("torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
     "", "AcceleratorFault", ["--image", "--gpu"], []),
    ("RuntimeError: No CUDA GPUs are available", "", "AcceleratorFault", ["describe node n1", "--image"], []),
    ("RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG`",
     "", "AcceleratorFault", ["--image"], []),
    ("ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
     "", "AcceleratorFault", ["describe node n1"], []),
    ("torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
     "", "AcceleratorFault", ["kubectl cordon n1"], ["--image"]),
    ("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
     "", "AcceleratorFault", ["NCCL_DEBUG=INFO"], ["--max-model-len"]),
    ("torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, unhandled cuda error, NCCL version 2.26.2 "
     "ncclUnhandledCudaError: Call to CUDA function failed. Last error: Cuda failure 2 'out of memory'",
     "", "EngineOutOfMemory", ["nvidia-smi"], []),
    ("RuntimeError: NCCL error: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000",
     "", "ApplicationFailed", ["--tp N"], []),
    # The hub.
    ("OSError: We couldn't connect to 'https://hub.corp.example' to load the files, and couldn't find them in the "
     "cached files. Check your internet connection",
     "", "HubUnreachable", ["wget -S --spider https://hub.corp.example", "HF_ENDPOINT", "--model-path"], []),
    ("requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max "
     "retries exceeded with url: /api/models/org/m (Caused by NameResolutionError(...))\"), '(Request ID: 1)')",
     "", "HubUnreachable", ["HTTPS_PROXY", "HF_ENDPOINT"], []),
    ("requests.exceptions.ProxyError: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max "
     "retries exceeded with url: /x (Caused by ProxyError('Unable to connect to proxy', OSError('Tunnel connection "
     "failed: 403 Forbidden')))\"))", "", "HubUnreachable", ["HTTPS_PROXY", "proxy"], ["--hf-token-secret"]),
    ("httpx.ConnectError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate in "
     "certificate chain (_ssl.c:1006)", "/site/huggingface_hub/utils/_http.py request",
     "HubUnreachable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"], []),
    ("httpx.ConnectTimeout: timed out", "/site/transformers/utils/hub.py x /site/huggingface_hub/utils/_http.py y",
     "HubUnreachable", ["wget -S --spider https://huggingface.co"], []),
    ("huggingface_hub.errors.HfHubHTTPError: 503 Server Error: Service Temporarily Unavailable for url: "
     "https://huggingface.co/org/m/resolve/main/config.json", "", "HubUnreachable", ["restart"], []),
    ("botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "
     "\"https://models.s3.eu-west-1.amazonaws.com/\"", "", "HubUnreachable", ["HTTPS_PROXY"], []),
    ("RuntimeError: Data processing error: CAS service error : Reqwest Error: HTTP status client error (429 Too Many "
     "Requests), domain: https://cas-server.xethub.hf.co/reconstruction/1",
     "", "HubUnreachable", ["--hf-token-secret"], []),
    ("httpx.ConnectError: [Errno -2] Name or service not known", "/site/vllm/v1/engine/core.py __init__",
     "HubUnreachable", ["HTTPS_PROXY"], []),
    # Of the model, and not of the way to it.
    ("OSError: There was a specific connection error when trying to load org/m: 401 Client Error: Unauthorized for "
     "url: https://huggingface.co/org/m/resolve/main/config.json", "", "ModelAccessDenied", [], ["HTTPS_PROXY"]),
    ("huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the "
     "specified revision on the local disk and outgoing traffic has been disabled.",
     "", "ModelNotFound", ["HF_HUB_OFFLINE"], []),
    ("huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error. (Request ID: x) Repository Not Found for url: "
     "https://huggingface.co/api/models/org/none", "", "ModelNotFound", [], ["HTTPS_PROXY"]),
    # Neither: another service, or a setting.
    ("requests.exceptions.ConnectionError: HTTPConnectionPool(host='redis.team.svc', port=6379): Max retries exceeded",
     "/app/main.py __init__", "ApplicationFailed", [], ["HF_ENDPOINT"]),
    ("requests.exceptions.ConnectionError: HTTPConnectionPool(host='vectors.team.svc', port=80): Max retries exceeded",
     "/site/huggingface_hub/inference.py post", "ApplicationFailed", [], ["HF_ENDPOINT"]),
    ("ConnectionRefusedError: [Errno 111] Connection refused", "/app/main.py __init__", "ApplicationFailed", [], []),
    ("httpx.ConnectError: [Errno -2] Name or service not known", "/app/main.py __init__", "ApplicationFailed", [], []),
    ("torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to "
     "(10.0.0.7, 29500).", "/site/vllm/v1/worker/gpu_worker.py init_device", "ApplicationFailed", [], ["HF_ENDPOINT"]),
    ("ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has "
     "compute capability 7.5.", "", "ApplicationFailed", ["--dtype float16"], []),
    ("ValueError: User-specified max_model_len (131072) is greater than the derived max_model_len "
     "(max_position_embeddings=40960 or model_max_length=None in model's config.json).",
     "", "ApplicationFailed", ["--max-model-len 40960"], []),
    ("ValueError: The quantization method fp8 is not supported for the current GPU. Minimum capability: 89. Current "
     "capability: 80.", "", "ApplicationFailed", ["--gpu GPU", "--quantization"], []),
    ("ValueError: Model architectures ['NewForCausalLM'] are not supported for now.",
     "", "ApplicationFailed", ["--image"], []),
    ("ValueError: The repository org/m contains custom code which must be executed to correctly load the model. Please "
     "pass the argument `trust_remote_code=True`", "", "ApplicationFailed", ["trust_remote_code=true"], []),
    ("ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (16).",
     "", "ApplicationFailed", ["--tp N"], []),
    ("OSError: [Errno 28] No space left on device", "", "ApplicationFailed", ["df -h", "--volume"], []),
    ("AssertionError: wrong number of layers", "", "ApplicationFailed", [], []),
)  # fmt: skip


@pytest.mark.parametrize(("text", "frames", "code", "has", "lacks"), CASES, ids=[case[0][:60] for case in CASES])
def test_a_sentence_and_what_helps(text: str, frames: str, code: str, has: list[str], lacks: list[str]) -> None:
    assert classify(text, frames) == code
    hints = " | ".join(map(str, sentence_hints(text, frames, **VALUES)))
    assert [word for word in has if word not in hints] == [], hints
    assert [word for word in lacks if word in hints] == [], hints


def test_every_sentence_has_a_case() -> None:
    """Those with hints; the HTTP clients' sentences come in pairs with the same ones."""
    used = {find_sentence(text, frames)[0].hints for text, frames, *_ in CASES}
    assert [one.pattern.pattern for one in SENTENCES if one.hints and one.hints not in used] == []


def test_another_traceback_before_it_tells_nothing() -> None:
    """A try of the hub that failed and was made up for is not why the engine did not start in time."""
    earlier = 'Traceback (most recent call last):\n  File "/site/huggingface_hub/utils/_http.py", line 9, in get\n'
    own = 'Traceback (most recent call last):\n  File "/site/vllm/v1/engine/utils.py", line 9, in wait\n'
    chained = "\nThe above exception was the direct cause of the following exception:\n\n"
    alone = read_failure(f"{earlier}OSError: no\n{own}TimeoutError: Timed out waiting for the engine to start\n")
    caused = read_failure(f"{earlier}OSError: no\n{chained}{own}TimeoutError: timed out\n")
    assert alone is not None
    assert caused is not None
    assert (alone.code, caused.code) == ("ApplicationFailed", "HubUnreachable")


def test_the_functions_of_a_traceback_tell_stages_apart() -> None:
    failure = read_failure(
        "(EngineCore pid=8) ERROR 03-01 12:00:00 [core.py:9] Traceback (most recent call last):\n"
        '(EngineCore pid=8) ERROR 03-01 12:00:00 [core.py:9]   File "/site/vllm/v1/worker/gpu_worker.py", line 300, in '
        "load_model\n"
        "(EngineCore pid=8) ERROR 03-01 12:00:00 [core.py:9]     self.model_runner.load_model()\n"
        f"(EngineCore pid=8) ERROR 03-01 12:00:00 [core.py:9] {OOM}\n"
    )
    assert failure is not None
    assert failure.frames == "/site/vllm/v1/worker/gpu_worker.py load_model"
    assert "--quantization" in " ".join(map(str, sentence_hints(failure.text, failure.frames, **VALUES)))
