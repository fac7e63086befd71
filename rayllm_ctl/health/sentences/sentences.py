"""What libraries, engines and drivers write when a start fails: the cause that a sentence stands for, and what helps.

A hint belongs to the sentence and not to its code: a shorter context helps where the KV cache is too small, and not
where another process holds the GPU. Texts as recorded with Ray 2.60 and vLLM 0.29, and as read in vLLM 0.29 to 0.33,
PyTorch, NCCL and the NVIDIA container toolkit.
"""

from __future__ import annotations

from rayllm_ctl.health.sentences.hub_sentences import HUB_SENTENCES
from rayllm_ctl.health.sentences.sentence import Sentence, sentence
from rayllm_ctl.model.text.hint import Hint

_MEMORY = Hint("{deploy} --memory QUANTITY", "a larger limit for the workers")
_UTILIZATION = "{deploy} --gpu-memory-utilization FRACTION"
_SEQUENCES = Hint("{deploy} --max-num-seqs {fewer}", "fewer requests at a time")
_PLAN = Hint("rayllm-ctl plan --model MODEL --gpu GPU", "how the memory is divided, and what fits")
_LARGER = (
    Hint("{deploy} --tp N", "more GPUs share the weights; or --quantization METHOD, or a GPU with more memory"),
    _PLAN,
)
_SMI = "{exec} -- nvidia-smi"
_IMAGE = "{deploy} --image IMAGE"

_OUT_OF_MEMORY = (
    r"OutOfMemoryError|(?:CUDA|HIP|XPU)(?: error:)? out of memory|cudaErrorMemoryAllocation|"
    r"CUBLAS_STATUS_ALLOC_FAILED|"
    r"Cuda failure \d+ 'out of memory'"
)

SENTENCES: tuple[Sentence, ...] = (
    sentence(
        "OOMKilled",
        r"ray\.exceptions\.OutOfMemoryError|running low on memory|OOM kill reason|memory monitor.*kill",
    ),
    # The driver, the image and the GPU do not fit.
    sentence(
        "AcceleratorFault",
        r"NVIDIA driver on your system is too old|CUDA driver version is insufficient|cudaErrorInsufficientDriver|"
        r"unsupported display driver / cuda driver combination|forward compatibility was attempted on non supported HW|"
        r"Error 80[34]\b|driver/library version mismatch|compiled with an unsupported toolchain|"
        r"unsatisfied condition: \S+|please update your driver|ROCm driver|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        Hint(_IMAGE, "one built for the CUDA version of the node's driver"),
        Hint(
            "kubectl get node {node} -L nvidia.com/cuda.driver-version.full,nvidia.com/cuda.runtime-version.full",
            "its driver; a newer one runs this image",
        ),
    ),
    sentence(
        "AcceleratorFault",
        r"no kernel image is available|NoKernelImageForDevice|is not compatible with the current PyTorch installation|"
        r"CUDA capability sm_\w+ is not|\bsm_\w+'? is not (?:defined|supported)|cudaErrorInvalidDeviceFunction|"
        r"invalid device function|named symbol not found|HIP error: invalid device function|"
        r"PTX JIT compiler|no binary for GPU|Torch not compiled with CUDA|not linked with CUDA",
        Hint(_IMAGE, "one built for this generation of GPUs"),
        Hint("{deploy} --gpu GPU", "GPUs that the image is built for"),
    ),
    sentence(
        "AcceleratorFault",
        r"system not yet initialized|Error 802\b|fabric ?manager|CUDA_ERROR_SYSTEM_NOT_READY",
        Hint("kubectl get pods -A -o wide --field-selector spec.nodeName={node}", "the fabric manager has to run"),
        Hint(f"{_SMI} -q", "section Fabric; and the driver's own log"),
    ),
    sentence(
        "AcceleratorFault",
        r"uncorrectable(?: NVLink| ECC)? error|ECC error|cudaErrorECCUncorrectable|fallen off the bus|GPU is lost|"
        r"\bXid \(?\w+|hardware stack error|GPU requires reset|unspecified launch failure|CUDA unknown error|"
        r"CUDA error: unknown error|device\(s\) is/are busy or unavailable|cudaErrorDevicesUnavailable|"
        r"NVML_ERROR_GPU_IS_LOST|NVMLError_GpuIsLost|row remapp",
        Hint(f"{_SMI} -q -d ECC,ROW_REMAPPER", "the device's own errors"),
        Hint(
            "kubectl cordon {node}", "so that the next pod starts on another node; then have the GPU reset or replaced"
        ),
    ),
    sentence(
        "AcceleratorFault",
        r"No CUDA GPUs are available|no CUDA-capable device|Found no NVIDIA driver|Failed to infer device type|"
        r"lib(?:cuda|nvidia-ml)\.so(?:\.\d+)?: cannot open|NVML Shared Library Not Found|NVMLError_LibraryNotFound|"
        r"CUDA driver initialization failed|CUDA initialization:|CUDA error: initialization error|"
        r"Can't initialize NVML|NVML(?:Error)?[ _]Unknown|driver not loaded|Failed to initialize NVML|"
        r"nvidia-container-cli|nvidia-container-runtime|unresolvable CDI devices|No HIP GPUs are available|"
        r"could not select device driver|Unexpected error from cudaGetDeviceCount|invalid device ordinal",
        Hint("kubectl describe node {node}", "GPUs in Allocatable, and the pods of the device plugin on it"),
        Hint(_IMAGE, "one built for GPUs; and a runtimeClassName in a template of your own where nodes ask for it"),
    ),
    # Another process on the GPU.
    sentence(
        "EngineOutOfMemory",
        r"Free memory on device \S* ?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\).*less than|"
        r"Free memory on device .* less than",
        Hint("{exec} -- nvidia-smi", "the other process that holds memory of the GPU"),
        Hint("{deploy} --gpu-memory-utilization {utilization}", "what is free beside it"),
        Hint("kubectl get pods -A -o wide --field-selector spec.nodeName={node}", "pods on the node with the same GPU"),
        passes=True,
    ),
    sentence(
        "EngineOutOfMemory",
        r"Error in memory profiling|release GPU memory while vLLM is profiling",
        Hint("{exec} -- nvidia-smi", "another process on the GPU that ended or started meanwhile"),
        Hint("{restart}", "once the process is gone"),
        passes=True,
    ),
    # Memory for requests, beside weights and cache.
    sentence(
        "EngineOutOfMemory",
        r"max_num_seqs \((?P<seqs>\d+)\) exceeds available Mamba cache blocks \((?P<blocks>\d+)\)|Mamba cache blocks",
        Hint("{deploy} --max-num-seqs {blocks}", "a block of the Mamba cache for each request"),
        Hint(_UTILIZATION, "a larger one leaves more blocks"),
    ),
    sentence(
        "EngineOutOfMemory",
        r"out of memory occurred when warming up (?:sampler|pooler) with (?P<seqs>\d+)|"
        r"out of memory occurred when warming up",
        _SEQUENCES,
        Hint(_UTILIZATION, "a smaller one leaves more memory beside the KV cache"),
    ),
    # Memory of a CPU worker.
    sentence("EngineOutOfMemory", r"Available memory on node .* less than", _MEMORY),
    sentence(
        "EngineOutOfMemory",
        r"Not enough memory\. Please try to increase|VLLM_CPU_KVCACHE_SPACE.*(?:exceed|larger|not enough)",
        _MEMORY,
    ),
    # A KV cache that is too small for one request.
    sentence(
        "EngineOutOfMemory",
        r"KV cache is needed, which is larger than.*estimated maximum model length is (?P<longest>\d+)|"
        r"KV cache is needed, which is larger than|"
        r"larger than the maximum number of tokens that can be stored in KV cache(?: \((?P<tokens>\d+)\))?",
        Hint("{deploy} --max-model-len {context}", "a context that fits"),
        _PLAN,
    ),
    # Weights and activations leave nothing for it: no context is short enough.
    sentence(
        "EngineOutOfMemory",
        r"No available memory for the cache blocks|Cannot auto-fit max_model_len|not enough GPU memory available|"
        r"No free memory.*KV|available KV cache memory",
        Hint(_UTILIZATION, "a larger one, where no other process uses the GPU"),
        *_LARGER,
    ),
    sentence("EngineOutOfMemory", r"Failed to load model - not enough (?:GPU )?memory", *_LARGER),
    sentence(
        "EngineOutOfMemory",
        _OUT_OF_MEMORY,
        *_LARGER,
        stage=r"\b(?:load_model|load_weights|create_weights|process_weights_after_loading|initialize_model|weight_loader)\b",
    ),
    sentence(
        "EngineOutOfMemory",
        _OUT_OF_MEMORY,
        Hint("{deploy} --gpu-memory-utilization FRACTION", "a smaller one leaves memory for CUDA graphs"),
        Hint("{deploy} --engine-arg enforce_eager=true", "no CUDA graphs; or --max-num-seqs N: fewer of them"),
        stage=r"\b(?:capture_model|_capture_cudagraphs|capture_graph|cudagraph)\b",
    ),
    sentence(
        "EngineOutOfMemory",
        _OUT_OF_MEMORY,
        Hint(
            "{deploy} --max-num-batched-tokens TOKENS", "a smaller step; or --max-num-seqs N: fewer requests at a time"
        ),
        *_LARGER,
        stage=r"\b(?:profile_run|determine_available_memory|_dummy_run|profile_cudagraph_memory)\b",
    ),
    sentence(
        "EngineOutOfMemory",
        rf"{_OUT_OF_MEMORY}|not enough (?:GPU )?memory",
        _LARGER[0],
        Hint("{deploy} --gpu-memory-utilization FRACTION", "a smaller one leaves more beside weights and KV cache"),
        Hint("{exec} -- nvidia-smi", "what else uses the GPU"),
        _PLAN,
    ),
    # NCCL: GPUs or nodes that do not reach one another.
    sentence(
        "ApplicationFailed", r"Duplicate GPU detected", Hint("{deploy} --tp N", "no more than the GPUs of a worker")
    ),
    sentence(
        "AcceleratorFault",
        r"\bNCCL (?:error|failure)|ncclSystemError|ncclUnhandledCudaError|ncclInternalError|ncclRemoteError|"
        r"collective operation timeout|RCCL error",
        Hint("{deploy} --env NCCL_DEBUG=INFO", "NCCL then names the device, the interface or the file that fails"),
        Hint(
            "{deploy} --env NCCL_SOCKET_IFNAME=eth0", "the interface of the pods' network; or --env NCCL_P2P_DISABLE=1"
        ),
    ),
    # The model.
    sentence(
        "ModelAccessDenied",
        r"gated repo|GatedRepo|is restricted and you are not in the authorized list|awaiting a review from|"
        r"must be authenticated to access|must have access to it",
    ),
    *HUB_SENTENCES,
    sentence(
        "ModelNotFound",
        r"Repo id must be in the form|is not a local folder and is not a valid model identifier|"
        r"RepositoryNotFound|RevisionNotFound|Repository Not Found|Revision Not Found|EntryNotFound|"
        r"is not a valid git identifier|does not appear to have a file named|No such model directory|"
        r"Invalid repository ID or local directory|Cannot find any model weights|NoSuchKey|NoSuchBucket|"
        r"Can't load (?:the )?(?:configuration|tokenizer|model)|"
        r"FileNotFoundError.*(?:model|config\.json|safetensors|tokenizer|weights|checkpoint)",
    ),
    sentence(
        "ModelAccessDenied",
        r"\b40[13] (?:Client Error|Forbidden|Unauthorized)|HTTP 40[13]|Invalid (?:username or password|credentials)|"
        r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|Unable to locate credentials|NoCredentialsError",
    ),
    sentence("ModelNotFound", r"404 (?:Client Error|Not Found).*(?:hugging|hub|/resolve/|model)|HFValidationError"),
    # Settings that the engine rejects, and images that lack something.
    sentence(
        "ApplicationFailed",
        r"Bfloat16 is only supported on GPUs with compute capability",
        Hint("{deploy} --dtype float16"),
    ),
    sentence(
        "ApplicationFailed",
        r"quantization method \S+ is not supported for the current GPU|Minimum capability: \d+|"
        r"requires GPU compute capability",
        Hint("{deploy} --gpu GPU", "one that supports the quantization; or --quantization METHOD"),
    ),
    sentence(
        "ApplicationFailed",
        r"Model architectures? .*(?:not supported|failed to be inspected)|does not recognize this architecture|"
        r"No module named '(?P<module>[^']+)'|cannot import name",
        Hint(_IMAGE, "one whose vLLM and transformers are new enough, with what is imported"),
    ),
    sentence(
        "ApplicationFailed",
        r"trust_remote_code",
        Hint("{deploy} --engine-arg trust_remote_code=true", "runs code from the model's repository"),
    ),
    sentence(
        "ApplicationFailed",
        r"greater than the derived max_model_len \(\S*?=(?P<derived>\d+)",
        Hint("{deploy} --max-model-len {derived}", "the most that the model was made for"),
    ),
    sentence(
        "ApplicationFailed",
        r"divisible by (?:the )?tensor parallel size",
        Hint("{deploy} --tp N", "a divisor of the attention heads, see rayllm-ctl plan"),
    ),
    sentence(
        "ApplicationFailed",
        r"No space left on device",
        Hint("{exec} -- df -h", "which file system is full"),
        Hint("{deploy} --volume KIND:SOURCE:PATH", "a volume with space for the model"),
    ),
)
"""The first that applies counts."""
