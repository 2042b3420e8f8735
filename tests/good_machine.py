"""A laptop on which the doctor finds all well; each test spoils one thing."""

import dataclasses
import json
import sys
from pathlib import Path

from dtlib.cluster.doctor import Machine
from dtlib.cluster.doctor.machine import GIB
from dtlib.ranks.processes import Ran

GOOD = {
    "torch": {
        "version": "2.14.1", "gloo": True, "nccl": False, "mps": False, "gpus": [],
        "cuda": None, "cudnn": None, "nccl_version": None,
    },
    "collective": {"sums": [3.0, 3.0], "seconds": 0.5},
    "data": {"cifar10": "/data/cifar10"},
    "deepspeed": {"version": "0.19.8"},
    "operators": {"missing": [], "folder": "/home/student/.cache"},
}  # fmt: skip


def programs(folder: Path, *names: str) -> str:
    """A PATH on which just these programs are found."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return str(folder)


def machine(*, answers: dict | None = None, commands: dict | None = None, **changes) -> Machine:
    """A laptop on which all is well, but for the changes."""
    said = {**GOOD, **(answers or {})}

    def run(command, timeout):
        if command[:2] == [sys.executable, "-m"]:
            answer = said[command[3]]
            return answer if isinstance(answer, Ran) else Ran(0, f"noise\n{json.dumps(answer)}\n")
        if command[:2] == [sys.executable, "-c"]:
            return (commands or {}).get("resolve", Ran(0, "127.0.0.1\n"))
        return (commands or {}).get(command[0], Ran(None, "No such file"))

    good = Machine(
        env={"PATH": ""}, system="Linux", python=(3, 11, 7), cores=2, memory_bytes=8 * GIB,
        folder=Path("/home/student"), run=run, free_bytes=lambda path: 50 * GIB,
        total_bytes=lambda path: 8 * GIB, exists=lambda path: True, listen=lambda: None,
        interfaces=lambda: ["lo", "eth0"], installed=lambda package: "1.0",
    )  # fmt: skip
    return dataclasses.replace(good, **changes)
