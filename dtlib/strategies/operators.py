"""DeepSpeed's compiled operators: built once into a cache, by set-up; a run only loads them.

By default, DeepSpeed compiles an operator when it is first used: in the middle of a lesson, for
minutes, on every rank. `dtlib ops build` compiles beforehand, `load` gives a run what is built, and
a missing operator is reported before anything starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import shutil
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from dtlib.config.files import writable_folder, write_atomically
from dtlib.errors import DtlibError, Unavailable

# Each operator and DeepSpeed's builder of it; an operator comes after those that it needs.
OPERATORS = {
    "cpu_adam": "CPUAdamBuilder",
    "pin_memory": "PinMemoryBuilder",
    "async_io": "AsyncIOBuilder",
}
NEEDED = {"offload": ("cpu_adam",), "infinity": ("cpu_adam", "pin_memory", "async_io")}
"""The operators that each strategy loads; offload also runs without."""

LIBAIO_HEADERS = ("/usr/include/libaio.h", "/usr/local/include/libaio.h")
MARKER = "built.json"
BUILD = "dtlib ops build"


def deepspeed_is_here() -> bool:
    """Tell whether DeepSpeed is installed, without importing it."""
    return importlib.util.find_spec("deepspeed") is not None


def refuse_without_deepspeed(what: str, instead: str = "fsdp") -> None:
    """Refuse where DeepSpeed is not installed.

    Raises `Unavailable` with the remedy: the command that installs it, or on macOS what to use
    instead.
    """
    if deepspeed_is_here():
        return
    if sys.platform == "darwin":
        raise Unavailable(
            f"{what} needs DeepSpeed, which does not exist for macOS; use strategy {instead}, or"
            " study the same idea by hand in dtlib/scratch/zero."
        )
    raise Unavailable(
        f"{what} needs DeepSpeed, which is not installed; in the project's folder:"
        " pip install -c constraints.txt -e '.[deepspeed]'"
    )


def missing_tools(
    which: Callable[..., str | None] = shutil.which,
    exists: Callable[[Path], bool] = Path.exists,
    env: Mapping[str, str] = os.environ,
) -> list[str]:
    """Return what is missing here for compiling an operator: of ninja, c++ and nvcc.

    Parameters
    ----------
    which, exists, env
        How to examine this machine; tests pass their own.
    """
    missing = [] if which("ninja") else ["ninja"]
    if not any(which(name) for name in (env.get("CXX"), "c++", "g++", "clang++") if name):
        missing.append("c++")
    home = env.get("CUDA_HOME") or env.get("CUDA_PATH") or "/usr/local/cuda"
    has_nvcc = which("nvcc") or exists(Path(home) / "bin" / "nvcc")
    if which("nvidia-smi") and not has_nvcc:
        missing.append("nvcc (CUDA_HOME)")
    return missing


def has_libaio(
    exists: Callable[[Path], bool] = Path.exists, env: Mapping[str, str] = os.environ
) -> bool:
    """Tell whether the header of libaio is here, which async_io needs to compile."""
    conda = [f"{env['CONDA_PREFIX']}/include/libaio.h"] if env.get("CONDA_PREFIX") else []
    return any(exists(Path(header)) for header in (*LIBAIO_HEADERS, *conda))


def folder() -> Path:
    """Return the folder of the operators for this Python, torch, DeepSpeed and processor.

    It is in `TORCH_EXTENSIONS_DIR`, otherwise in torch's `~/.cache/torch_extensions`. Operators are
    compiled for one processor type, so machines that share a home may have different folders.
    """
    chosen = os.environ.get("TORCH_EXTENSIONS_DIR")
    root = Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "torch_extensions"
    versions = [f"{name}{importlib.metadata.version(name)}" for name in ("torch", "deepspeed")]
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    return root / "-".join(["dtlib", python, *versions, f"{zlib.crc32(_processor()):08x}"])


def _processor() -> bytes:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_bytes().splitlines():
            if line.startswith((b"flags", b"Features")):
                return line
    return b""


def built(name: str) -> Path | None:
    """Return the library of an operator, if it is built for this machine and its packages."""
    try:
        marker = json.loads((folder() / name / MARKER).read_text(encoding="utf-8"))
        library = folder() / name / marker["library"]
    except (OSError, ValueError, KeyError, importlib.metadata.PackageNotFoundError):
        return None
    return library if library.exists() else None


def not_built(names: Iterable[str]) -> list[str]:
    """Return which of these operators are not built here."""
    return [name for name in names if built(name) is None]


def refuse_unbuildable(names: Iterable[str]) -> None:
    """Refuse to build these operators if a tool is missing.

    Raises `Unavailable` with all that is missing and how to get it.
    """
    missing = missing_tools()
    if "async_io" in names and not has_libaio():
        missing.append("libaio")
    if missing:
        package = {"c++": "g++", "libaio": "libaio-dev", "ninja": "ninja-build"}
        packages = " ".join(package[word] for word in missing if word in package)
        remedies = []
        if packages:
            conda = "or with conda: cxx-compiler, libaio, ninja"
            remedies.append(f"apt-get install {packages} ({conda})")
        if len(packages.split()) < len(missing):
            remedies.append("set CUDA_HOME to a CUDA toolkit that has bin/nvcc")
        raise Unavailable(
            f"building {', '.join(names)} needs {', '.join(missing)}, missing here;"
            f" {', '.join(remedies)}, and run this again."
        )


def build(names: Iterable[str] = tuple(OPERATORS)) -> None:
    """Compile these operators into the cache, unless they are built; minutes each.

    Raises `Unavailable` when DeepSpeed, a compiler, ninja or libaio is missing; `DtlibError` when
    the compiler fails; the message contains its error.
    """
    refuse_without_deepspeed(f"`{BUILD}`")
    wanted = not_built(names)
    for name in names:
        if name not in wanted:
            print(f"{name} is built already, in {folder() / name}.", flush=True)
    if not wanted:
        return
    refuse_unbuildable(wanted)
    home = writable_folder(folder(), "TORCH_EXTENSIONS_DIR")
    for name in wanted:
        for sentence in clear_lock(home / name):
            print(sentence, flush=True)
        print(f"Building {name}: one to seven minutes …", flush=True)
        begin = time.monotonic()
        library = _compile(name, home)
        write_atomically(library.with_name(MARKER), json.dumps({"library": library.name}))
        print(f"Built {name} in {time.monotonic() - begin:.0f} s: {library}", flush=True)


def _compile(name: str, home: Path) -> Path:
    import torch

    from dtlib.strategies.needs import unchanged_process

    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
    builders = deepspeed("cuda" if torch.cuda.is_available() else "cpu").ops.op_builder
    builder = getattr(builders, OPERATORS[name])()
    try:
        with unchanged_process():
            os.environ["TORCH_EXTENSIONS_DIR"] = str(home)
            return Path(builder.load(verbose=False).__file__)
    except Exception as error:
        errors = [line for line in str(error).splitlines() if "error" in line.lower()]
        said = " ".join((errors or str(error).splitlines())[0].split())
        raise DtlibError(f"{name} could not be built: {said}") from error


def clear_lock(build_folder: Path) -> list[str]:
    """Remove the lock of a build that was killed; otherwise the next build may wait for ever.

    torch up to 2.13 takes a file `lock` as a sign that another process is building, even if that
    process has ended. A builder keeps the file open, so a lock that no process has open is stale.

    Returns
    -------
    list
        Sentences that tell the user what was done.
    """
    lock = build_folder / "lock"
    if not lock.exists():
        return []
    holder = _holder(lock)
    if holder is not None:
        return [f"{build_folder.name} is being built by process {holder}; waiting for it."]
    lock.unlink(missing_ok=True)
    return [f"A build of {build_folder.name} was cut short: its lock {lock} has been removed."]


def _holder(file: Path) -> int | None:
    """Return a process of this machine that has the file open."""
    target = file.resolve()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if link.readlink() == target:
                return int(link.parts[2])
    return None


def deepspeed(device_type: str) -> Any:
    """Import DeepSpeed for a device, silent except for warnings.

    Raises `Unavailable` when it is installed but cannot be imported.
    """
    os.environ.setdefault("DS_ACCELERATOR", device_type)  # otherwise it detects it, and logs that
    # It calls collectives by names that torch 2.14 replaced, which a user cannot fix
    old = r"`torch\.distributed\.(all_gather_into_tensor|reduce_scatter_tensor)` is deprecated"
    warnings.filterwarnings("ignore", old, FutureWarning)
    try:
        import deepspeed
    except Exception as error:
        said = " ".join(str(error).split())
        raise Unavailable(
            f"DeepSpeed is installed but fails when imported ({said}); in the project's folder:"
            " pip install -c constraints.txt -e '.[deepspeed]'"
        ) from error
    logging.getLogger("DeepSpeed").addFilter(_worth_saying)
    # DeepSpeed's own operator for gloo on one machine, which the first collective would compile
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    _load_muon_without_compiler()
    return deepspeed


def _load_muon_without_compiler() -> None:
    """Import DeepSpeed's Muon while torch.compile is disabled.

    Every engine imports it, and its decorators would load Inductor on each rank: a third of a small
    run's CPU time, for an optimizer that dtlib does not use.
    """
    import torch

    with contextlib.suppress(ImportError), mock.patch.object(torch, "compile", lambda fn: fn):
        importlib.import_module("deepspeed.runtime.zero.muon.original_muon")


def _worth_saying(record: logging.LogRecord) -> bool:
    """Drop two warnings: dtlib tests SGD, and `nvme` documents the wear of disks."""
    return not any(words in record.msg for words in ("untested optimizer", "write endurance"))


def load(names: Iterable[str]) -> None:
    """Give DeepSpeed the libraries that set-up built, so that it compiles nothing; see `built`."""
    from deepspeed.ops.op_builder.builder import OpBuilder
    from deepspeed.ops.op_builder.pin_memory_load import _SYS_CACHE_ATTR

    for name in names:
        library = built(name)
        if library is None or name in OpBuilder._loaded_ops:
            continue
        spec = importlib.util.spec_from_file_location(library.stem, library)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        OpBuilder._loaded_ops[name] = module
        if name == "pin_memory":  # async_io finds its symbols there
            setattr(sys, _SYS_CACHE_ATTR, module)
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
