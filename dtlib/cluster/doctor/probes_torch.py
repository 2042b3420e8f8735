"""Probes that need torch; each asks in a separate process, where torch may crash or hang."""

from __future__ import annotations

from typing import Any

from dtlib.cluster.doctor.machine import Finding, Machine

NEEDED_TORCH = (2, 11)
INSTALL = "in the project's folder: pip install -e . -c constraints.txt"


def torch(machine: Machine) -> Finding:
    """Is torch there, new enough, and able to run collectives?"""
    ran = machine.torch_facts()
    facts = ran.answer()
    if facts is None:
        return Finding("torch", "missing", ran.last_line or f"exit code {ran.code}", INSTALL)
    backends = [name for name in ("gloo", "nccl", "mps") if facts[name]]
    found = f"{facts['version']}, backends: {', '.join(backends) or 'none'}"
    if _version(facts["version"]) < NEEDED_TORCH:
        needed = ".".join(map(str, NEEDED_TORCH))
        return Finding("torch", "missing", f"{found}; older than {needed}", INSTALL)
    if not facts["gloo"]:
        remedy = "install torch from PyPI: its builds have gloo, which lessons need"
        return Finding("torch", "missing", found, remedy)
    return Finding("torch", "ok", found)


def gpu(machine: Machine) -> Finding:
    """Is there a GPU that torch can use, and which driver and libraries does it have?"""
    facts: dict[str, Any] = machine.torch_facts().answer() or {}
    driver = _driver(machine)
    if facts.get("gpus"):
        found = (
            f"{len(facts['gpus'])} × {facts['gpus'][0]}, driver {driver or 'unknown'}, "
            f"CUDA {facts['cuda']}, cuDNN {facts['cudnn']}, NCCL {facts['nccl_version']}"
        )
        bf16 = facts.get("bf16")
        if bf16 is None or all(bf16):
            return Finding("GPU", "ok", f"{found}, bf16" if bf16 else found)
        missing = "no bf16" if not any(bf16) else f"no bf16 on GPU {bf16.index(False)}"
        return Finding("GPU", "note", f"{found}, {missing}", "train with --precision fp16 or fp32")
    if driver:
        version = facts.get("version", "")
        found = f"the driver {driver} finds a GPU, but torch {version} cannot use it"
        remedy = "install a CUDA build of torch that this driver supports; see `nvidia-smi`"
        return Finding("GPU", "note", found, remedy)
    if facts.get("mps"):
        found = "Apple's (mps), for one process with --device mps; several ranks run on the CPU"
        return Finding("GPU", "ok", found)
    return Finding("GPU", "note", "none: lessons run on the CPU, GPU lessons show recorded results")


def collective(machine: Machine) -> Finding:
    """Do two ranks really start here and sum their numbers?"""
    ran = machine.ask_inside("collective", 90.0)
    facts = ran.answer()
    if facts and facts["sums"] == [3.0, 3.0]:
        return Finding("collective", "ok", f"two ranks started and summed in {facts['seconds']} s")
    said = f"got {facts['sums']} instead of [3.0, 3.0]" if facts else ran.last_line
    remedy = "fix torch, ports and host name above first; then run `dtlib doctor` again"
    return Finding("collective", "missing", f"two ranks could not sum: {said}", remedy)


def data(machine: Machine) -> Finding:
    """Which real data sets are here? Lessons do not need them."""
    ran = machine.ask_inside("data", 60.0)
    facts = ran.answer()
    if facts is None:
        return Finding("data", "note", f"the check failed: {ran.last_line}")
    found = [f"{name} ({place})" for name, place in facts.items() if place]
    absent = [name for name, place in facts.items() if not place]
    if not absent:
        return Finding("data", "ok", "; ".join(found))
    found.append(f"not here: {', '.join(absent)} (lessons make their own data)")
    remedy = f"dtlib fetch {' '.join(absent)} (or set DTLIB_DATA to the folder that holds them)"
    return Finding("data", "note", "; ".join(found), remedy)


def _driver(machine: Machine) -> str | None:
    if not machine.which("nvidia-smi"):
        return None
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    ran = machine.run(query, 20.0)
    return ran.last_line if ran.code == 0 else None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("+")[0].split(".")[:2] if part.isdigit())


TORCH = (torch, gpu, collective, data)
