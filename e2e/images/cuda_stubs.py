"""Make the registry's CUDA build of torch load on a machine without CUDA, at a third of the size.

PyPI has no CPU build of torch for Linux. Its CUDA build links some 4 GB of NVIDIA's libraries and its own kernels for
GPUs, none of which a CPU ever calls, yet the dynamic linker wants every library and symbol to exist. Here they exist as
stubs, compiled from the symbol tables of torch itself, so NVIDIA's packages are not even downloaded.

A stub never pretends to work: CUDA's own functions answer "no device", as they do on a machine without a GPU, and
torch's GPU functions end the process with their name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from e2e.cluster.shell import run

# libtorch.so and libtorch_python.so link this one; the others only serve it or are opened on demand.
_TORCH_CUDA = "libtorch_cuda.so"
_DROPPED = (_TORCH_CUDA, "libtorch_cuda_linalg.so", "libtorch_nvshmem.so", "libcaffe2_nvrtc.so")

_NVIDIA_SYMBOL = re.compile(r"_*(cu|nccl|nvrtc|nvml)[a-zA-Z]")
_NVIDIA_LIBRARY = re.compile(r"lib(cu|nv|nccl)")
_NVIDIA_STUB = "librayllm_no_cuda.so"

# cudaErrorNoDevice of CUDA's driver_types.h: torch takes it for "no GPU here" and says nothing; the other libraries
# take any value but zero for a failure.
_NO_DEVICE = 100

_PREAMBLE = """\
extern int dprintf(int, const char *, ...);
extern void abort(void);
static void refuse(const char *name) { dprintf(2, "%s: this image has no CUDA\\n", name); abort(); }
static char memory[4096];
"""

# The methods of every C++ type description, from libstdc++. A description is {methods, mangled name}: Itanium C++ ABI
# 2.9.5.
TYPE_METHODS = "_ZTVN10__cxxabiv117__class_type_infoE"

# c10d::ProcessGroupGloo::Options::Options(std::chrono::milliseconds), in libtorch_cpu.so.
_GLOO_OPTIONS = "_ZN4c10d16ProcessGroupGloo7OptionsC1ENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE"


def replace_cuda(lib: Path) -> None:
    """Replace torch's CUDA library and NVIDIA's libraries in torch's `lib` directory by stubs.

    Needs gcc, nm and readelf. Raises RigError where a tool fails.
    """
    kept = sorted(path for path in lib.glob("*.so*") if path.name not in _DROPPED)
    undefined = _symbols(kept, "--undefined-only")
    missing = undefined.keys() - _symbols(kept, "--defined-only").keys()
    torch_functions = missing & _symbols([lib / name for name in _DROPPED], "--defined-only").keys()
    nvidia_functions = {name: undefined[name] for name in missing - torch_functions if _NVIDIA_SYMBOL.match(name)}
    for name in _DROPPED:
        (lib / name).unlink()
    _compile(lib / _TORCH_CUDA, torch_source(torch_functions))
    versions = lib / "versions.map"
    versions.write_text(version_script(nvidia_functions))
    _compile(lib / _NVIDIA_STUB, nvidia_source(nvidia_functions), f"-Wl,--version-script={versions}")
    versions.unlink()
    for soname in _needed(kept):
        if _NVIDIA_LIBRARY.match(soname) and not (lib / soname).exists():
            (lib / soname).symlink_to(_NVIDIA_STUB)


def torch_source(symbols: Iterable[str]) -> str:
    """C source that defines `symbols` (mangled C++ names): functions that end the process, and bare types."""
    lines = [_PREAMBLE, f"extern void *{TYPE_METHODS}[];"]
    for symbol in sorted(symbols):
        if symbol.startswith("_ZTI"):
            # The offset skips the two words before the first method (Itanium C++ ABI 2.5.2).
            lines.append(
                f'struct {{ void *methods; const char *name; }} {symbol} = {{ {TYPE_METHODS} + 2, "{symbol[4:]}" }};'
            )
        elif symbol.startswith("_ZTV"):
            lines.append(f"void *{symbol}[64];")
        elif "get_gil_checker" in symbol:
            # Called while libtorch_python.so loads: it returns a reference, through which a pointer is stored.
            lines.append(f"void *{symbol}(void) {{ return memory; }}")
        elif symbol.startswith("_ZN4c10d16ProcessGroupNCCL7OptionsC"):
            # torch.distributed makes one as a default argument. Gloo's options share its base and are smaller.
            lines.append(f"extern void {_GLOO_OPTIONS}(void *, long);")
            lines.append(f"void {symbol}(void *self) {{ {_GLOO_OPTIONS}(self, 1800000); }}")
        elif "_available" in symbol:
            lines.append(f"int {symbol}(void) {{ return 0; }}")
        else:
            lines.append(f'void {symbol}(void) {{ refuse("{symbol}"); }}')
    return "\n".join(lines) + "\n"


def nvidia_source(symbols: Iterable[str]) -> str:
    """C source that defines NVIDIA's functions `symbols`: each answers that there is no device."""
    lines = [_PREAMBLE]
    for symbol in sorted(symbols):
        if re.search(r"Error(String|Name)|LastError", symbol) and symbol != "cudaGetLastError":
            lines.append(f'const char *{symbol}(void) {{ return "this image has no CUDA"; }}')
        elif symbol.startswith("__cuda"):
            # Called while a library loads, to register its kernels; some return a handle.
            lines.append(f"void *{symbol}(void) {{ return memory; }}")
        else:
            lines.append(f"long {symbol}(void) {{ return {_NO_DEVICE}; }}")
    return "\n".join(lines) + "\n"


def version_script(versions: Mapping[str, str]) -> str:
    """The linker's version script for symbols with the versions that are asked for ("" for none).

    The dynamic linker stops the process when a library that is named by a versioned reference defines no versions.
    """
    nodes: dict[str, list[str]] = {}
    for symbol, version in sorted(versions.items()):
        if version:
            nodes.setdefault(version, []).append(symbol)
    return "".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in nodes.items())


def _compile(target: Path, source: str, *flags: str) -> None:
    command = ["gcc", "-w", "-O1", "-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{target.name}", *flags]
    run([*command, "-x", "c", "-", "-o", target], stdin=source)


def _symbols(libraries: Sequence[Path], which: str) -> dict[str, str]:
    """The dynamic symbols of the libraries, each with its version ("" for none)."""
    output = run(["nm", "--dynamic", which, "--format=posix", *map(str, libraries)])
    symbols: dict[str, str] = {}
    for line in output.splitlines():
        if line and not line.endswith(":"):
            name, _, version = line.split()[0].partition("@")
            symbols[name] = version.lstrip("@") or symbols.get(name, "")
    return symbols


def _needed(libraries: Sequence[Path]) -> set[str]:
    output = run(["readelf", "--dynamic", *map(str, libraries)])
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", output))
