"""Probes of what some lessons need besides Python: compilers, DeepSpeed, Slurm."""

from __future__ import annotations

from dtlib.cluster.doctor.machine import Finding, Machine
from dtlib.strategies import operators as ops

LIBAIO = "libaio"


def missing_tools(machine: Machine) -> list[str]:
    """Return what is missing here for building DeepSpeed's own operators.

    A lesson that offloads to the CPU or to NVMe asks this first, and is skipped with the reason
    instead of failing inside a build.
    """
    return ops.missing_tools(machine.which, machine.exists, machine.env)


def compiler(machine: Machine) -> Finding:
    """Can operators be built?"""
    missing = missing_tools(machine)
    if not missing:
        return Finding("compiler", "ok", "a C++ compiler and ninja")
    what = "xcode-select --install" if machine.is_mac else "apt-get install g++"
    found = f"missing: {', '.join(missing)} (only DeepSpeed's compiled operators need them)"
    cuda = "; set CUDA_HOME" if "nvcc (CUDA_HOME)" in missing else ""
    return Finding("compiler", "note", found, f"{what}; pip install ninja{cuda}")


def libaio(machine: Machine) -> Finding:
    """Can tensors go to NVMe?"""
    if machine.is_mac:
        return Finding(LIBAIO, "ok", "not needed on macOS")
    if ops.has_libaio(machine.exists, machine.env):
        return Finding(LIBAIO, "ok", "its header is there")
    remedy = "apt-get install libaio-dev, or conda install -c conda-forge libaio"
    return Finding(LIBAIO, "note", "missing: libaio (only ZeRO-Infinity on NVMe needs it)", remedy)


def deepspeed(machine: Machine) -> Finding:
    """Can DeepSpeed be imported? In a separate process, because the import can crash."""
    if machine.is_mac:
        found = "not available on macOS: its lessons show recorded results"
        return Finding("DeepSpeed", "note", found)
    version = machine.installed("deepspeed")
    if version is None:
        found = "not installed (only the lessons on DeepSpeed need it)"
        return Finding("DeepSpeed", "note", found, "pip install -e '.[deepspeed]'")
    ran = machine.ask_inside("deepspeed", 90.0)
    if ran.code == 0:
        return Finding("DeepSpeed", "ok", version)
    said = ran.last_line or f"exit code {ran.code}"
    found = f"{version} is installed, but its import fails: {said}"
    return Finding("DeepSpeed", "note", found, "pip install -e '.[deepspeed]' -c constraints.txt")


def slurm(machine: Machine) -> Finding:
    """Is there a Slurm to submit jobs to?"""
    if not machine.which("sbatch"):
        return Finding("Slurm", "note", "none (only batch jobs on a cluster need it)")
    job = machine.env.get("SLURM_JOB_ID")
    where = f"inside job {job}" if job else "outside a job"
    ran = machine.run(["sinfo", "--noheader", "--format=%D %T"], 20.0)
    if ran.code == 0:
        lines = [" ".join(line.split()) for line in ran.output.splitlines() if line.strip()]
        return Finding("Slurm", "ok", f"{where}; nodes: {', '.join(lines) or 'none'}")
    found = f"sbatch is here, but the controller does not answer: {ran.last_line}"
    remedy = "ask the site's support, or log in to a node that can submit"
    return Finding("Slurm", "note", found, remedy)


def operators(machine: Machine) -> Finding:
    """Are DeepSpeed's operators compiled? A run never compiles them."""
    name = "operators"
    if machine.is_mac:
        return Finding(name, "ok", "not needed on macOS")
    if machine.installed("deepspeed") is None:
        return Finding(name, "note", "none, because DeepSpeed is not installed")
    ran = machine.ask_inside("operators", 60.0)
    facts = ran.answer()
    if facts is None:
        return Finding(name, "note", f"the check failed: {ran.last_line}")
    if not facts["missing"]:
        return Finding(name, "ok", f"compiled, in {facts['folder']}")
    found = f"not compiled: {', '.join(facts['missing'])} (offload is slower, infinity cannot run)"
    return Finding(name, "note", found, f"{ops.BUILD} (once, about ten minutes)")


TOOLS = (compiler, libaio, deepspeed, operators, slurm)
