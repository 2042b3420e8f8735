"""Probes of the machine itself: Python, memory, disk, network."""

from __future__ import annotations

import sys
from pathlib import Path

from dtlib.cluster.doctor.machine import GIB, Finding, Machine

NEEDED_PYTHON = (3, 11)
# What a lesson imports; the rest comes with them.
PACKAGES = ("numpy", "psutil", "cloudpickle", "jupyterlab", "papermill", "anywidget", "matplotlib")
REINSTALL = "in the project's folder: make lab, or pip install -e ."
RESOLVE = "import socket; print(socket.gethostbyname(socket.gethostname()))"


def python(machine: Machine) -> Finding:
    """Is Python new enough?"""
    found = ".".join(map(str, machine.python))
    if machine.python >= NEEDED_PYTHON:
        return Finding("python", "ok", found)
    needed = ".".join(map(str, NEEDED_PYTHON))
    return Finding(
        "python", "missing", f"{found}, older than {needed}", "conda env create -f environment.yml"
    )


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
    return Finding(
        "shared memory",
        "note",
        f"{found}: DataLoader workers and NCCL can crash",
        "start the container with --shm-size=2g (Docker's default is 64 MiB)",
    )


def ports(machine: Machine) -> Finding:
    """Can ranks reach one another on this machine?"""
    try:
        machine.listen()
    except OSError as error:
        return Finding(
            "ports",
            "missing",
            f"no connection to a port of 127.0.0.1: {error}",
            "allow local connections in the firewall or sandbox; ranks talk through them",
        )
    return Finding("ports", "ok", "a port of 127.0.0.1 listens and answers")


def host_name(machine: Machine) -> Finding:
    """Does the machine's own name resolve? gloo and torchrun look it up."""
    ran = machine.run([sys.executable, "-c", RESOLVE], 10.0)
    if ran.code == 0:
        return Finding("host name", "ok", f"resolves to {ran.last_line}")
    interface = "lo0" if machine.is_mac else "lo"
    return Finding(
        "host name",
        "note",
        f"this machine's own name does not resolve ({ran.last_line})",
        'add "127.0.0.1 $(hostname)" to /etc/hosts; until then torchrun needs '
        f"GLOO_SOCKET_IFNAME={interface} (dtlib sets it for its own ranks)",
    )


SYSTEM = (python, packages, cores, memory, disk, shared_memory, ports, host_name)
