"""Probes of what some lessons use beside Python: compilers, DeepSpeed, Slurm."""

from __future__ import annotations

from pathlib import Path

from dtlib.doctor.machine import Finding, Machine

LIBAIO = "libaio"
LIBAIO_HEADERS = ("/usr/include/libaio.h", "/usr/local/include/libaio.h")


def missing_tools(machine: Machine) -> list[str]:
    """What building DeepSpeed's own operators lacks here.

    A lesson that offloads to the CPU or to NVMe asks this first, and is skipped with the reason
    instead of failing inside a build.
    """
    missing = [] if machine.which("ninja") else ["ninja"]
    if not machine.which(*filter(None, [machine.env.get("CXX")]), "c++", "g++", "clang++"):
        missing.append("c++")
    if machine.which("nvidia-smi") and not _cuda_home(machine):
        missing.append("nvcc (CUDA_HOME)")
    return missing


def compiler(machine: Machine) -> Finding:
    """Can operators be built?"""
    missing = missing_tools(machine)
    if not missing:
        return Finding("compiler", "ok", "a C++ compiler and ninja")
    what = "xcode-select --install" if machine.is_mac else "apt-get install g++"
    return Finding(
        "compiler",
        "note",
        f"missing: {', '.join(missing)} (only DeepSpeed's compiled operators need them)",
        f"{what}; pip install ninja" + ("; set CUDA_HOME" if "nvcc (CUDA_HOME)" in missing else ""),
    )


def libaio(machine: Machine) -> Finding:
    """Can tensors go to NVMe?"""
    if machine.is_mac:
        return Finding(LIBAIO, "ok", "not needed on macOS")
    prefixes = [machine.env[name] for name in ("CONDA_PREFIX",) if machine.env.get(name)]
    headers = [*LIBAIO_HEADERS, *(f"{prefix}/include/libaio.h" for prefix in prefixes)]
    if any(machine.exists(Path(header)) for header in headers):
        return Finding(LIBAIO, "ok", "its header is there")
    return Finding(
        LIBAIO,
        "note",
        "missing: libaio (only ZeRO-Infinity on NVMe needs it)",
        "apt-get install libaio-dev, or conda install -c conda-forge libaio",
    )


def deepspeed(machine: Machine) -> Finding:
    """Can DeepSpeed be imported? In a process of its own, since it can crash on import."""
    if machine.is_mac:
        found = "not to be had on macOS: its lessons show recorded results"
        return Finding("DeepSpeed", "note", found)
    version = machine.installed("deepspeed")
    if version is None:
        found = "not installed (only the lessons on DeepSpeed need it)"
        return Finding("DeepSpeed", "note", found, "pip install -e '.[deepspeed]'")
    ran = machine.ask_inside("deepspeed", 90.0)
    if ran.code == 0:
        return Finding("DeepSpeed", "ok", version)
    said = ran.last_line or f"exit code {ran.code}"
    return Finding(
        "DeepSpeed",
        "note",
        f"{version} is installed, but its import fails: {said}",
        "pip install -e '.[deepspeed]' -c constraints.txt",
    )


def slurm(machine: Machine) -> Finding:
    """Is there a Slurm to send jobs to?"""
    if not machine.which("sbatch"):
        return Finding("Slurm", "note", "none (only batch jobs on a cluster need it)")
    job = machine.env.get("SLURM_JOB_ID")
    where = f"inside job {job}" if job else "outside a job"
    ran = machine.run(["sinfo", "--noheader", "--format=%D %T"], 20.0)
    if ran.code == 0:
        lines = ", ".join(
            " ".join(line.split()) for line in ran.output.splitlines() if line.strip()
        )
        return Finding("Slurm", "ok", f"{where}; nodes: {lines or 'none'}")
    return Finding(
        "Slurm",
        "note",
        f"sbatch is here, but the controller does not answer: {ran.last_line}",
        "ask the site's support, or log in to a node that can submit",
    )


def _cuda_home(machine: Machine) -> bool:
    home = machine.env.get("CUDA_HOME") or machine.env.get("CUDA_PATH") or "/usr/local/cuda"
    return bool(machine.which("nvcc")) or machine.exists(Path(home) / "bin" / "nvcc")


TOOLS = (compiler, libaio, deepspeed, slurm)
