#!/usr/bin/env python3
"""Look at a GPU node as its scheduler should, and drain it from Slurm if something is broken.

    health.py [--config FILE] [--drain]

Without --drain it only prints what it finds, a line each. Exit codes: 0 healthy, 1 broken, 2 bad
configuration. It needs nothing but Python 3.10 and runs as root, every few minutes, by a timer;
Slurm can call it as its HealthCheckProgram, too. It never resumes a node: whoever repaired it does.
"""

import argparse
import csv
import io
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys

CONFIG = "/etc/dtlib/health.json"
DEFAULTS = {
    "gpus": None,  # how many the node has; None: as many as Slurm or the driver says
    "mounts": [],  # file systems that must be mounted, such as /scratch
    "full": 95,  # percent of a mount that may be in use
    "minutes": 30,  # how far back the kernel's log is read
    "skew_ms": 100,  # how far the clock may be from its time servers
}
# Xid errors after which an application cannot simply start again: the GPU has to be reset or
# replaced (https://docs.nvidia.com/deploy/xid-errors/). Others, such as 13, 31 and 43, are faults
# of the program that ran.
FATAL_XID = {
    48: "uncorrectable ECC error",
    62: "halt of its internal microcontroller",
    64: "failure to remap a broken row",
    74: "NVLink error",
    79: "it has fallen off the bus",
    92: "high rate of corrected ECC errors",
    95: "uncontained ECC error",
    119: "time-out of its system processor",
    120: "error of its system processor",
}
FIELDS = {
    "index": "number",
    "pci.bus_id": "bus",
    "ecc.errors.uncorrected.volatile.total": "ecc",
    "ecc.errors.uncorrected.aggregate.total": "ecc_ever",
    "pcie.link.width.current": "width",
    "pcie.link.width.max": "width_max",
    "clocks_event_reasons.hw_thermal_slowdown": "hot",
    "clocks_event_reasons.hw_power_brake_slowdown": "brake",
    "temperature.gpu": "degrees",
}


def main(words=None):
    """Print what is broken, drain the node if requested, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--config", default=CONFIG, help="JSON file (default: %(default)s)")
    parser.add_argument("--drain", action="store_true", help="drain a broken node from Slurm")
    args = parser.parse_args(words)
    try:
        config = read(args.config)
    except ValueError as error:
        print(f"health: {error}", file=sys.stderr)
        return 2
    found = [*gpus(config), *xids(config), *mounts(config), *clock(config)]
    for line in found or ["healthy"]:
        print(line)
    if found and args.drain:
        drain("; ".join(found))
    return 1 if found else 0


def read(path):
    """Return the settings: the defaults, and what the file says, if there is one."""
    try:
        said = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return dict(DEFAULTS)
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}.") from None
    unknown = sorted(set(said) - set(DEFAULTS))
    if unknown:
        known = ", ".join(DEFAULTS)
        raise ValueError(f"{path} sets {unknown[0]}, which does not exist; choose from {known}.")
    return {**DEFAULTS, **said}


def output(*command):
    """Return what a command prints, or None if it is missing, fails or takes longer than 30 s."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def gpus(config):
    """Yield what is wrong with the GPUs, by nvidia-smi."""
    if config["gpus"] == 0:
        return
    said = output("nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits")
    if said is None:
        if config["gpus"] or shutil.which("nvidia-smi"):
            yield "nvidia-smi does not answer: the driver is missing or hangs"
        return
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(said)) if row]
    wanted = config["gpus"]
    if wanted is not None and len(rows) != wanted:
        yield f"{len(rows)} of {wanted} GPUs are there"
    for row in rows:
        yield from of_gpu(dict(zip(FIELDS.values(), row, strict=True)))


def of_gpu(gpu):
    """Yield what is wrong with one GPU; a field that it does not have reads "[N/A]"."""
    name = f"GPU {gpu['number']} ({gpu['bus']})"
    if gpu["ecc"].isdecimal() and int(gpu["ecc"]):
        yield f"{name} had {gpu['ecc']} uncorrectable ECC errors since the driver was loaded"
    width, most = gpu["width"], gpu["width_max"]
    if width.isdecimal() and most.isdecimal() and int(width) < int(most):
        yield f"{name} has {width} of its {most} PCIe lanes"
    if gpu["hot"] == "Active":
        yield f"{name} throttles because it is too hot ({gpu['degrees']} °C)"
    if gpu["brake"] == "Active":
        yield f"{name} throttles because the power supply asks for it"


def xids(config):
    """Yield the fatal Xid errors of the last minutes, each GPU and number once."""
    said = output("journalctl", "-k", "-o", "cat", "--since", f"-{config['minutes']}min")
    seen = re.findall(r"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+)", said or "")
    for bus, number in dict.fromkeys(seen):
        if int(number) in FATAL_XID:
            yield f"GPU at {bus} reported Xid {number}: {FATAL_XID[int(number)]}"


def mounts(config):
    """Yield the file systems that are not mounted, hang or are full."""
    for path in config["mounts"]:
        said = output("findmnt", "--noheadings", "--output", "TARGET", "--mountpoint", path)
        if said is None:
            yield f"{path} is not mounted"
            continue
        used = output("df", "--output=pcent", path)  # a separate process: a dead server blocks it
        if used is None:
            yield f"{path} does not answer"
        elif int(re.findall(r"(\d+)%", used)[0]) > config["full"]:
            yield f"{path} is {re.findall(r'[0-9]+%', used)[0]} full"


def clock(config):
    """Yield by how much the clock is off, where chrony keeps it."""
    said = output("chronyc", "-c", "tracking")
    if said is None:
        return
    off = abs(float(said.strip().split(",")[4])) * 1e3  # "System time", in seconds
    if off > config["skew_ms"]:
        yield f"the clock is off by {off:.0f} ms"


def drain(reason):
    """Take the node out of Slurm's service; what runs on it may finish."""
    node = socket.gethostname().partition(".")[0]
    command = ["scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason=health: {reason}"]
    if output(*command) is None:
        print(f"health: scontrol could not drain {node}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
