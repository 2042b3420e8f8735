"""What people read of a profile: tables of shares, ranges and kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlib.errors import BadInput, did_you_mean
from dtlib.profiling.ncu import Reached
from dtlib.profiling.nsys import Export
from dtlib.profiling.shares import Shares
from dtlib.profiling.verdict import Verdict
from dtlib.sim.hardware import DEVICES
from dtlib.study.reading import aligned

# Names as NVIDIA's driver tells them. Boards whose peaks the table does not have (an H100 NVL, a
# 3090 Ti) are left without one rather than given a sister's.
_BOARDS = (
    (r"\bH100 PCIe\b", "h100-pcie"),
    (r"\bH100 80GB HBM3\b|\bH100 SXM", "h100"),
    (r"\bH200$|\bH200 SXM", "h200"),
    (r"\bB200\b", "b200"),
    (r"\bA100-SXM4-80GB\b", "a100-80"),
    (r"\bA100-\w+-40GB\b", "a100-40"),
    (r"\bV100-SXM2-32GB\b", "v100"),
    (r"\bRTX 3090$", "rtx3090"),
    (r"\bRTX 4090$", "rtx4090"),
)
NAME_WIDTH = 60


def device_of(name: str) -> str | None:
    """Return the row of `sim.hardware.DEVICES` for a GPU's name, or None."""
    return next((key for pattern, key in _BOARDS if re.search(pattern, name)), None)


def say_traces(shares: Sequence[Shares], verdict: Verdict) -> str:
    """The shares of every rank's steps, from traces of torch.profiler, and what bounds them."""
    rows = [
        [f"rank {one.rank}", f"{1e3 * one.seconds:.1f}", _percent(one.compute),
         _percent(one.communication), _percent(one.input), _percent(one.idle),
         _percent(one.hidden), _percent(one.waited)]
        for one in shares
    ]  # fmt: skip
    head = ["", "ms/step", "compute", "exposed comm", "input", "idle", "hidden comm", "waited"]
    return f"{aligned([head, *rows], left=1)}\n{verdict}"


def say_nsys(export: Export, top: int = 10) -> str:
    """Shares of every GPU, NVTX ranges and the kernels that took longest.

    Parameters
    ----------
    export
        As `nsys.read` gives it.
    top
        How many ranges and kernels are told.
    """
    lines = ["Shares of the captured time; kinds may overlap, exposed NCCL runs beside no kernel."]
    head = ["GPU", "process", "ms", "kernels", "NCCL", "exposed NCCL", "copies", "idle", ""]
    rows = [
        [str(one.device), str(one.process), f"{1e3 * one.seconds:.3f}", _percent(one.kernel),
         _percent(one.nccl), _percent(one.exposed_nccl), _percent(one.copy), _percent(one.idle),
         one.name]
        for one in export.gpus
    ]  # fmt: skip
    lines += [aligned([head, *rows], left=0, last=True), ""]
    if export.ranges:
        ranges = [
            [str(one.count), f"{1e3 * one.seconds:.3f}",
             "" if one.gpu_seconds is None else f"{1e3 * one.gpu_seconds:.3f}", one.name]
            for one in export.ranges[:top]
        ]  # fmt: skip
        head = ["times", "ms on the CPU", "ms of kernels", "NVTX range"]
        lines += [aligned([head, *ranges], left=0, last=True), ""]
    else:
        lines += ["There is no NVTX range: `dtlib profile nsys` makes them.", ""]
    whole = sum(one.seconds for one in export.kernels)
    kernels = [
        [str(one.count), f"{1e3 * one.seconds:.3f}", _percent(one.seconds / whole),
         one.name[:NAME_WIDTH]]
        for one in export.kernels[:top]
    ]  # fmt: skip
    return "\n".join(
        [*lines, aligned([["times", "ms", "of kernels", "kernel"], *kernels], left=0, last=True)]
    )


def say_ncu(reached: Sequence[Reached], device: str | None = None, top: int = 10) -> str:
    """What each kernel reached, beside what its GPU can do.

    Parameters
    ----------
    reached
        As `ncu.read` gives it.
    device
        Row of `sim.hardware.DEVICES`; by default the one that the GPU's name tells.
    top
        How many kernels are told.

    Raises
    ------
    BadInput
        when there is no such device.
    """
    if device is not None and device not in DEVICES:
        near = did_you_mean(device, DEVICES)
        raise BadInput(f"unknown device {device!r}; there is {', '.join(DEVICES)}.{near}")
    rows = [row for one in reached[:top] for row in _kernel_rows(one, device)]
    known = {key for one in reached[:top] if (key := device or device_of(one.gpu))}
    head = ["launches", "µs each", "GB/s", "of peak", "TFLOP/s", "of peak", "kernel"]
    said = [f"Peak: {DEVICES[key]['title']} ({DEVICES[key]['source']})." for key in sorted(known)]
    if not known:
        said = ["No peak is known for this GPU: --device names one of `dtlib sim memory --help`."]
    return "\n".join([aligned([head, *rows], left=0, last=True), *said])


def _kernel_rows(one: Reached, device: str | None) -> list[list[str]]:
    row = DEVICES.get(device or device_of(one.gpu) or "", {"bandwidth": None, "peak": {}})
    rate = one.bytes_per_second()
    first = [str(one.launches), f"{1e6 * one.seconds / one.launches:.1f}"]
    first += [_scaled(rate, 1e9), _of(rate, row["bandwidth"])]
    speeds: dict[str, float | None] = {**one.flop_per_second()} or {"": None}
    rows = []
    for number, (precision, speed) in enumerate(speeds.items()):
        mine = f"{_scaled(speed, 1e12)} {precision}".strip()
        name = one.kernel[:NAME_WIDTH] if number == 0 else ""
        rows.append([*(first if number == 0 else [""] * 4), mine,
                     _of(speed, row["peak"].get(precision)), name])  # fmt: skip
    return rows


def _scaled(value: float | None, unit: float) -> str:
    return "" if value is None else f"{value / unit:,.2f}"


def _of(value: float | None, most: float | None) -> str:
    return "" if value is None or most is None else _percent(value / most)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
