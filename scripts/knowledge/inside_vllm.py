"""Build models of vLLM on torch's meta device and say what they take. Run by the Python that has vLLM's CPU build.

    PYTHONPATH=... python3.11 inside_vllm.py < cases.json > results.jsonl

Nothing is allocated and no checkpoint is read: a model is made from its config.json alone. A rank of a larger TP is
made in one process, by telling vLLM's group of one process that it is the first of several.

stdin: a list of {"name", "config", "tensors", "dtype", and where needed "sources"}: `sources` is a folder with the
files of another release of vLLM, whose model file is taken in place of the installed one. stdout: a line for each
case, {"name", "ranks"} or {"name", "problem"}. For each rank: bytes of parameters and buffers, and the pages of the KV
cache as [bytes, tokens, window, how many].
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import sys
import tempfile
import types
from collections import Counter, defaultdict
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from unittest import mock

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_LOGGING_LEVEL": "CRITICAL",
    "VLLM_NO_USAGE_STATS": "1",
}

import torch
import transformers
from torch.overrides import TorchFunctionMode
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.pixtral import modeling_pixtral
from vllm import tokenizers
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import parallel_state
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.custom_op import op_registry
from vllm.model_executor.layers import fused_moe
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.model_executor.models.registry import ModelRegistry
from vllm.platforms import current_platform
from vllm.transformers_utils.config import _CONFIG_REGISTRY
from vllm.utils import torch_utils
from vllm.utils.torch_utils import set_default_torch_dtype
from vllm.v1.attention.backends import fa_utils
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, CPUAttentionBackendImpl

_PACKAGES = ("vllm.model_executor.models", "vllm.model_executor.layers.mamba", "vllm.transformers_utils.configs")
"""Where modules of another release are found if this one has dropped them."""


_NEUTRAL = {
    "activation_dropout": 0.0, "activation_function": "gelu", "att_impl_type": "GQA", "attention_dropout": 0.0,
    "audio_segment_size": 6000, "downsample_factor": 4, "dropout": 0.0, "encoder_layerdrop": 0.0, "eos_token_id": 0,
    "fullatt_block_indexes": [7, 15, 23, 31], "hidden_act": "silu", "hidden_stride": 2, "im_patch_id": 0,
    "image_patch_id": 0, "image_tag_type": "", "image_token_id": 0, "img_processor": None, "in_channels": 3,
    "input_local_hidden_dropout": 0.0, "layer_norm_eps": 1e-06, "layer_norm_type": "rms", "ls_init_value": None,
    "multimodal_projector_bias": True, "norm_after": False, "num_channels": 3, "original_rope": True,
    "output_dim": None, "pad_token_id": 0, "pooling_attention_mask": False, "projector_hidden_act": "gelu",
    "ps_version": "v2", "rms_norm_eps": 1e-06, "rope_scaling_layers": None, "rope_theta": 10000.0,
    "scale_embedding": False, "speech_zeroemb_idx": "1024", "template": None, "use_rope": True, "use_rope2d": True,
    "visual_token_window_size": 64, "weight_tying": False, "window_size": 112,
}  # fmt: skip
"""Fields that models read and the data leaves out: they decide no size, or have this value in all models here."""


def _neutral(_: object, name: str) -> object:
    try:
        return _NEUTRAL[name]
    except KeyError:
        raise AttributeError(name) from None


def prepare() -> None:
    """One process that is all of its groups, and what a machine without Triton lacks at import."""
    from vllm.triton_utils import importing

    def missing(_: types.ModuleType, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **_: args[0] if args and callable(args[0]) else None

    CPUAttentionBackend.supports_alibi_sqrt = classmethod(lambda _: True)
    made = CPUAttentionBackendImpl.__init__

    def make(self: object, *args: object, **options: object) -> None:
        options.pop("use_alibi_sqrt", None)
        made(self, *args, **options)

    CPUAttentionBackendImpl.__init__ = make
    type(current_platform).current_device = classmethod(lambda _: "meta")
    fused_moe.FusedMoE = fused_moe.FusedMoEFactory  # its name before 0.23
    for placeholder in ("TritonPlaceholder", "TritonLanguagePlaceholder"):
        getattr(importing, placeholder).__getattr__ = missing
    transformers.PretrainedConfig.__getattr__ = _neutral
    modeling_pixtral.PixtralRotaryEmbedding = modeling_pixtral.PixtralVisionRotaryEmbedding  # its older name
    modeling_pixtral.position_ids_in_meshgrid = None  # of an older transformers, for requests only
    choose = type(current_platform).get_attn_backend_cls.__func__

    def dense(cls: type, backend: object, attn_selector_config: object, **options: object) -> str:
        return choose(cls, backend, attn_selector_config._replace(use_sparse=False), **options)

    type(current_platform).get_attn_backend_cls = classmethod(dense)
    fa_utils.__getattr__ = lambda name: missing(fa_utils, name)
    fa_utils.is_flash_attn_varlen_func_available = lambda: True
    tokenizers.cached_tokenizer_from_config = lambda *_, **__: mock.MagicMock(vocab=defaultdict(int))
    register = torch_utils.direct_register_custom_op

    def register_once(*args: object, **options: object) -> None:
        with suppress(RuntimeError):  # another release's model file registers it again
            register(*args, **options)

    torch_utils.direct_register_custom_op = register_once
    store = Path(tempfile.mkdtemp(), "store")
    parallel_state.init_distributed_environment(1, 0, f"file://{store}", 0, "gloo")


def build(case: dict, tensor: int, places: AbstractContextManager) -> dict:
    """What rank 0 of `tensor` takes."""
    config = merged(case["config"], case.get("extra", {}))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config))
        options = EngineArgs(
            model=folder,
            skip_tokenizer_init=True,
            load_format="dummy",
            dtype=case.get("dtype", "bfloat16"),
            enforce_eager=True,
            tensor_parallel_size=tensor,
            trust_remote_code=True,
            enable_prefix_caching=False,
        ).create_engine_config()
        # On CPUs vLLM would keep states in float32.
        text = {**config, **config.get("text_config", {})}
        options.cache_config.mamba_ssm_cache_dtype = text.get("mamba_ssm_dtype", "auto")
        with set_current_vllm_config(options):
            if parallel_state._TP is None:
                parallel_state.initialize_model_parallel(1, 1)
            if parallel_state._EP is None:
                parallel_state._EP = parallel_state._DP
            parallel_state._TP.world_size = tensor
            with set_default_torch_dtype(options.model_config.dtype), places, runner(case):
                model = initialize_model(options)
            pages = Counter(
                (spec.page_size_bytes, spec.block_size, getattr(spec, "sliding_window", None) or 0, type(spec).__name__)
                for layer in options.compilation_config.static_forward_context.values()
                if hasattr(layer, "get_kv_cache_spec") and (spec := layer.get_kv_cache_spec(options)) is not None
            )
    return {
        "parameters": sum(
            item.numel() * 4 if case.get("float32") and case["float32"] in name else size(item)
            for name, item in model.named_parameters()
        ),
        "buffers": sum(size(item) for item in model.buffers()),
        "pages": [[*page[:3], count, page[3]] for page, count in pages.items()],
    }


def runner(case: dict) -> AbstractContextManager:
    """What models take for the model runner: the second one refuses to start without Triton."""
    if not case.get("secondRunner"):
        return nullcontext()
    return mock.patch.object(VllmConfig, "use_v2_model_runner", True)


class EmptyOnMeta(TorchFunctionMode):
    """The meta device for tensors without values alone: some models compute with small ones while they are made."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in (torch.empty, torch.empty_strided, torch.randn, torch.rand):
            kwargs["device"] = "meta"
        return function(*args, **kwargs)


def size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def register(case: dict) -> None:
    """Make vLLM take the model in this process, and transformers its config."""
    config = case["config"]
    (architecture,) = config["architectures"]
    if "sources" in case:
        ModelRegistry.register_model(architecture, _class_of(Path(case["sources"]), architecture))
    else:
        found = ModelRegistry.models.get(architecture)
        if found is not None and hasattr(found, "load_model_cls"):
            ModelRegistry.register_model(architecture, found.load_model_cls())
    _register_config(case)


def _register_config(case: dict) -> None:
    """A plain class where the checkpoint brings its own: the same fields, no defaults."""
    kind = case["config"].get("model_type")
    if not kind or (not case.get("plain") and (kind in CONFIG_MAPPING or kind in _CONFIG_REGISTRY)):
        return
    _CONFIG_REGISTRY.pop(kind, None)
    if "sources" in case and Path(case["sources"], "vllm/transformers_utils/configs", f"{kind}.py").is_file():
        module = importlib.import_module(f"vllm.transformers_utils.configs.{kind}")
        own = [item for item in vars(module).values() if getattr(item, "model_type", None) == kind]
        transformers.AutoConfig.register(kind, own[0], exist_ok=True)
        return
    plain = type(
        "PlainConfig",
        (transformers.PretrainedConfig,),
        {"model_type": kind, "default_theta": 1e4, "__init__": _plain_init},
    )
    transformers.AutoConfig.register(kind, plain, exist_ok=True)


def _plain_init(self: transformers.PretrainedConfig, **fields: object) -> None:
    nested = {key: value for key, value in fields.items() if isinstance(value, dict) and key.endswith("_config")}
    transformers.PretrainedConfig.__init__(self, **{key: value for key, value in fields.items() if key not in nested})
    for key, value in nested.items():
        kind = value.get("model_type")
        known = CONFIG_MAPPING[kind] if kind in CONFIG_MAPPING else transformers.PretrainedConfig  # noqa: SIM401
        inner = known(**{name: item for name, item in value.items() if name != "model_type"})
        if kind:
            inner.model_type = kind
        setattr(self, key, inner)


def _class_of(folder: Path, architecture: str) -> type:
    """The class of a model from the files of another release, with the layers of this one."""
    models = folder / "vllm" / "model_executor" / "models"
    tree = ast.parse((models / "registry.py").read_text())
    places = {
        key.value: [part.value for part in value.elts]
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple)
    }
    module, name = places[architecture]
    op_registry.clear()  # the other release registers operations under the same names
    for package in _PACKAGES:
        importlib.import_module(package).__path__[1:] = [str(folder / package.replace(".", "/"))]
    return getattr(importlib.import_module(f"vllm.model_executor.models.{module}"), name)


def merged(config: dict, more: dict) -> dict:
    """`config` with what `more` has beyond it, mappings inside each other."""
    found = {**more, **config}
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(config.get(key), dict):
            found[key] = merged(config[key], value)
    return found


def with_floats(config: dict, key: str) -> dict:
    """`config` with the number of `key` as a float, which strict classes of transformers require."""
    return {
        name: with_floats(value, key)
        if isinstance(value, dict)
        else float(value)
        if name == key and isinstance(value, int)
        else value
        for name, value in config.items()
    }


def built(case: dict, tensor: int) -> dict:
    try:
        return build(case, tensor, torch.device("meta"))
    except (NotImplementedError, RuntimeError) as error:
        if "meta" not in str(error):
            raise
        return build(case, tensor, EmptyOnMeta())


def result(case: dict) -> dict:
    for _ in range(9):
        try:
            register(case)
            return {"name": case["name"], "ranks": {str(tensor): built(case, tensor) for tensor in case["tensors"]}}
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            integer = re.search(r"Field '(\w+)' expected float, got int", message)
            if integer is None:
                if os.environ.get("TRACEBACKS"):
                    import traceback

                    traceback.print_exc()
                return {"name": case["name"], "problem": " ".join(message.split())[:400]}
            case = {**case, "config": with_floats(case["config"], integer[1])}
    return {"name": case["name"], "problem": message}


def main() -> None:
    prepare()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for case in json.load(sys.stdin):
        answers.write(json.dumps(result(case)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
