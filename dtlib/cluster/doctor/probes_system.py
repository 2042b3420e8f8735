"""Probes of the machine itself: Python, memory, disk, network."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dtlib.cluster.doctor.machine import GIB, Finding, Machine
from dtlib.errors import BadInput
from dtlib.ranks.interfaces import GLOO, NCCL, refuse_interfaces

NEEDED_PYTHON = (3, 11)
# What lessons import; their dependencies come with them.
PACKAGES = ("numpy", "psutil", "cloudpickle", "jupyterlab", "papermill", "anywidget", "matplotlib")
REINSTALL = "in the project's folder: make lab, or pip install -e ."
RESOLVE = "import socket; print(socket.gethostbyname(socket.gethostname()))"


def python(machine: Machine) -> Finding:
    """Is Python new enough?"""
    found = ".".join(map(str, machine.python))
    if machine.python >= NEEDED_PYTHON:
        return Finding("python", "ok", found)
    found += f", older than {'.'.join(map(str, NEEDED_PYTHON))}"
    return Finding("python", "missing", found, "conda env create -f environment.yml")


def packages(machine: Machine) -> Finding:
    """Is everything installed that lessons import?"""
    missing = [name for name in PACKAGES if machine.installed(name) is None]
    if missing:
        return Finding("packages", "missing", f"missing: {', '.join(missing)}", REINSTALL)
    return Finding("packages", "ok", f"all {len(PACKAGES)} that lessons start from are installed")


def cores(machine: Machine) -> Finding:
    """How many ranks can compute at once?"""
    if machine.cores >= 2:
        return Finding("cores", "ok", f"{machine.cores}")
    return Finding("cores", "note", "1: ranks take turns, so lessons take up to twice as long")


def memory(machine: Machine) -> Finding:
    """Do four ranks fit? Each holds about 0.4 GiB once torch is loaded."""
    found = f"{machine.memory_bytes / GIB:.1f} GiB free"
    if machine.memory_bytes >= 4 * GIB:
        return Finding("memory", "ok", found)
    remedy = "close other programs, or give the container or job at least 4 GiB"
    return Finding(
        "memory", "note" if machine.memory_bytes >= 2 * GIB else "missing", found, remedy
    )


def disk(machine: Machine) -> Finding:
    """Is there room for runs and checkpoints?"""
    free = machine.free_bytes(machine.folder)
    found = f"{free / GIB:.1f} GiB free in {machine.folder}"
    if free >= 5 * GIB:
        return Finding("disk", "ok", found)
    remedy = "make room (old runs lie in runs/), or work in another folder"
    return Finding("disk", "note" if free >= GIB else "missing", found, remedy)


def shared_memory(machine: Machine) -> Finding:
    """Is there room where DataLoader workers hand batches over?"""
    if machine.is_mac:
        return Finding("shared memory", "ok", "not needed on macOS")
    place = Path("/dev/shm")
    if not machine.exists(place):
        return Finding("shared memory", "note", "no /dev/shm", "mount -t tmpfs tmpfs /dev/shm")
    total = machine.total_bytes(place)
    found = f"{total / GIB:.2f} GiB in /dev/shm"
    if total >= GIB:
        return Finding("shared memory", "ok", found)
    found += ": DataLoader workers and NCCL can crash"
    remedy = "start the container with --shm-size=2g (Docker's default is 64 MiB)"
    return Finding("shared memory", "note", found, remedy)


def ports(machine: Machine) -> Finding:
    """Can ranks reach one another on this machine?"""
    try:
        machine.listen()
    except OSError as error:
        found = f"no connection to a port of 127.0.0.1: {error}"
        remedy = "allow local connections in the firewall or sandbox; ranks talk through them"
        return Finding("ports", "missing", found, remedy)
    return Finding("ports", "ok", "a port of 127.0.0.1 listens and answers")


def host_name(machine: Machine) -> Finding:
    """Does the machine's own name resolve? gloo and torchrun look it up."""
    ran = machine.run([sys.executable, "-c", RESOLVE], 10.0)
    if ran.code == 0:
        return Finding("host name", "ok", f"resolves to {ran.last_line}")
    return Finding(
        "host name",
        "note",
        f"this machine's own name does not resolve ({ran.last_line})",
        # no variable, because sbatch passes a shell's exported variables on to every job
        'add "127.0.0.1 $(hostname)" to /etc/hosts (on a cluster node the site has to add it, with '
        "its network address); until then start ranks with `dtlib`, which needs no name",
    )


def interfaces(machine: Machine) -> Finding:
    """Do ranks find the network interfaces that variables name?"""
    nodes = int(machine.env.get("SLURM_JOB_NUM_NODES") or 1)
    facts = machine.torch_facts().answer() or {}
    used = ("gloo", "nccl") if facts.get("gpus") else ("gloo",)
    return interfaces_of({"": machine.interfaces()}, nodes, machine.env, used)


def interfaces_of(
    hosts: Mapping[str, Sequence[str]],
    nodes: int,
    env: Mapping[str, str],
    backends: Sequence[str] = ("gloo", "nccl"),
) -> Finding:
    """Do hosts with these network interfaces have those that the variables of `env` name?"""
    name = "network interfaces"
    for backend in backends:
        for host, here in hosts.items():
            try:
                refuse_interfaces(env, backend, nodes, here)
            except BadInput as error:
                found, _, remedy = str(error).rpartition("; ")
                where = f"{host}: " if host else ""
                return Finding(name, "missing", where + found, remedy.rstrip("."))
    named = [f"{variable}={env[variable]}" for variable in (GLOO, NCCL) if env.get(variable)]
    return Finding(name, "ok", ", ".join(named) or "no variable names one")


SYSTEM = (
    python, packages, cores, memory, disk, shared_memory, ports, host_name, interfaces,
)  # fmt: skip
