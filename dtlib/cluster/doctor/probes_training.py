"""Probes of what stops a training run on a GPU: cuDNN, memory in use, launcher, internet."""

from __future__ import annotations

import sys
from pathlib import Path

from dtlib.cluster.doctor.machine import Finding, Machine
from dtlib.errors import BadInput
from dtlib.ranks.environment import environment_world

CUDNN = (
    "torch brings its own cuDNN: remove the folder of any other from LD_LIBRARY_PATH (`module"
    " unload cudnn`), and reinstall torch with its packages:"
    " pip install --force-reinstall torch -c constraints.txt"
)
HUB = "huggingface.co"
CONNECT = f"import socket; socket.create_connection(('{HUB}', 443), timeout=3); print('answers')"
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
TAKEN = 0.1  # share of a GPU's memory; a display or the driver holds less


def cudnn(machine: Machine) -> Finding:
    """Does torch find all of the cuDNN that it was compiled for?"""
    ran = machine.torch_facts()
    facts = ran.answer()
    if facts is None:
        if "cudnn" in ran.last_line.lower():
            return Finding("cuDNN", "missing", ran.last_line, CUDNN)
        return Finding("cuDNN", "note", "unknown, because torch cannot be loaded")
    if not facts["gpus"]:
        return Finding("cuDNN", "ok", "not needed without an NVIDIA GPU")
    if facts.get("cudnn_error"):
        return Finding("cuDNN", "missing", facts["cudnn_error"], CUDNN)
    tried = machine.ask_inside("cudnn", 60.0)
    found = tried.answer()
    if found is not None:
        return Finding("cuDNN", "ok", f"{found['version']}, a convolution ran")
    said = tried.last_line or f"exit code {tried.code}"
    if "cudnn" in said.lower():
        return Finding("cuDNN", "missing", f"a convolution failed: {said}", CUDNN)
    said = f"a convolution could not be tried: {said}"
    return Finding("cuDNN", "note", said, "see GPU memory below")


def gpu_memory(machine: Machine) -> Finding:
    """Is the GPUs' memory free, or is it in use already?"""
    name = "GPU memory"
    if not machine.which("nvidia-smi"):
        return Finding(name, "ok", "no NVIDIA GPU here")
    query = ["nvidia-smi", "--query-gpu=index,memory.free,memory.total", "--format=csv,noheader,"
             "nounits"]  # fmt: skip
    ran = machine.run(query, 20.0)
    try:
        rows = [[int(word) for word in line.split(",")] for line in ran.output.splitlines() if line]
        pairs = [(index, free / 1024, total / 1024) for index, free, total in rows]
    except ValueError:
        return Finding(name, "note", f"nvidia-smi does not report it: {ran.last_line}")
    words = ", ".join(
        f"{free:.1f} of {total:.1f} GiB free on {index}" for index, free, total in pairs
    )
    if all(free >= (1 - TAKEN) * total for _, free, total in pairs):
        return Finding(name, "ok", words)
    remedy = "`nvidia-smi` names the processes: end old ones of your own, or ask for another GPU"
    return Finding(name, "note", f"{words}: another process holds the rest", remedy)


def launcher(machine: Machine) -> Finding:
    """Does `torchrun` belong to this Python, and is this process already a rank?"""
    try:
        world = environment_world(machine.env)
    except BadInput as error:
        return Finding("launcher", "note", str(error), "unset the variables, or use torchrun")
    place = machine.which("torchrun")
    if place and Path(place).parent != Path(sys.executable).parent:
        found = f"torchrun is {place}, which belongs to another Python than {sys.executable}"
        remedy = "activate this environment, or use `python -m torch.distributed.run`"
        return Finding("launcher", "note", found, remedy)
    if world:
        found = f"this is rank {world.rank} of {world.world_size}, started by {world.source}"
        return Finding("launcher", "note", found, "dtlib joins these ranks: leave --ranks out")
    names = [name for name in ("torchrun", "deepspeed", "srun") if machine.which(name)]
    return Finding("launcher", "ok", f"dtlib's own; also {', '.join(names) or 'none'}")


def internet(machine: Machine) -> Finding:
    """Can data and checkpoints be fetched from here? Compute nodes often cannot."""
    for name in OFFLINE:
        if machine.env.get(name, "").lower() in ("1", "true", "on", "yes"):
            return Finding("internet", "ok", f"not checked, because {name} is set")
    ran = machine.run([sys.executable, "-c", CONNECT], 6.0)
    if ran.code == 0:
        return Finding("internet", "ok", f"{HUB} answers")
    return Finding(
        "internet",
        "note",
        f"{HUB} does not answer ({ran.last_line}); lessons do not need it",
        "`dtlib fetch NAME` on a login node, or copy files here: `dtlib fetch NAME --from FILE`;"
        " HF_HUB_OFFLINE=1 keeps Hugging Face's libraries from waiting",
    )


TRAINING = (cudnn, gpu_memory, launcher, internet)
