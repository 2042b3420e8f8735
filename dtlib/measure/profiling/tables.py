"""Tables of a profile, as rows of text below a header; the caller aligns or marks them up."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlib.errors import refuse_unknown
from dtlib.measure.profiling.ncu import Reached
from dtlib.measure.profiling.nsys import Export
from dtlib.measure.profiling.shares import Shares
from dtlib.sim.hardware import DEVICES

NAME_WIDTH = 60
Rows = list[list[str]]


def device_of(name: str) -> str | None:
    """Return the row of `sim.hardware.DEVICES` for a GPU's name, or None."""
    named = ((key, row["board"]) for key, row in DEVICES.items() if "board" in row)
    return next((key for key, pattern in named if re.search(pattern, name)), None)


def of_ranks(shares: Sequence[Shares]) -> Rows:
    """The shares of every rank's steps, from traces of torch.profiler."""
    head = ["", "ms/step", "compute", "exposed comm", "input", "idle", "hidden comm", "waited"]
    parts = ("compute", "communication", "input", "idle", "hidden", "waited")
    return [head] + [
        [f"rank {one.rank}", f"{1e3 * one.seconds:.1f}"]
        + [percent(getattr(one, part)) for part in parts]
        for one in shares
    ]


def of_gpus(export: Export) -> Rows:
    """The shares of every GPU, from an export of Nsight Systems."""
    head = ["GPU", "process", "ms", "kernels", "NCCL", "exposed NCCL", "copies", "idle", "name"]
    parts = ("kernel", "nccl", "exposed_nccl", "copy", "idle")
    return [head] + [
        [str(one.device), str(one.process), f"{1e3 * one.seconds:.3f}"]
        + [percent(getattr(one, part)) for part in parts]
        + [one.name]
        for one in export.gpus
    ]


def of_ranges(export: Export, top: int = 10) -> Rows:
    """The NVTX ranges that took longest."""
    return [["times", "ms on the CPU", "ms of kernels", "NVTX range"]] + [
        [str(one.count), f"{1e3 * one.seconds:.3f}",
         "" if one.gpu_seconds is None else f"{1e3 * one.gpu_seconds:.3f}", one.name]
        for one in export.ranges[:top]
    ]  # fmt: skip


def of_kernels(export: Export, top: int = 10) -> Rows:
    """The kernels that took longest, and their shares of all kernels' time."""
    whole = sum(one.seconds for one in export.kernels) or 1.0  # a damaged export can have 0
    return [["times", "ms", "of kernels", "kernel"]] + [
        [str(one.count), f"{1e3 * one.seconds:.3f}", percent(one.seconds / whole),
         one.name[:NAME_WIDTH]]
        for one in export.kernels[:top]
    ]  # fmt: skip


def of_reached(reached: Sequence[Reached], device: str | None = None, top: int = 10) -> Rows:
    """The performance of each of the `top` kernels of `ncu.read`, beside its GPU's peak.

    `device` is a row of `sim.hardware.DEVICES`; by default the one that matches the GPU's name.
    Raises `BadInput` when there is no such device.
    """
    if device is not None:
        refuse_unknown("device", device, DEVICES)
    head = ["launches", "µs each", "GB/s", "of peak", "TFLOP/s", "of peak", "kernel"]
    return [head] + [row for one in reached[:top] for row in _kernel_rows(one, device)]


def peaks_of(reached: Sequence[Reached], device: str | None = None) -> str:
    """Say which peaks `of_reached` compared with."""
    known = {key for one in reached if (key := device or device_of(one.gpu))}
    if not known:
        return "No peak is known for this GPU: choose one of `dtlib sim memory --help` by --device."
    peaks = [f"{DEVICES[key]['title']} ({DEVICES[key]['source']})" for key in sorted(known)]
    return f"Peak: {'; '.join(peaks)}."


def _kernel_rows(one: Reached, device: str | None) -> Rows:
    row = DEVICES.get(device or device_of(one.gpu) or "", {"bandwidth": None, "peak": {}})
    rate = one.bytes_per_second()
    first = [str(one.launches), f"{1e6 * one.seconds / one.launches:.1f}"]
    first += [_scaled(rate, 1e9), _of(rate, row["bandwidth"])]
    speeds: dict[str, float | None] = {**one.flop_per_second()} or {"": None}
    rows = []
    for number, (precision, speed) in enumerate(speeds.items()):
        mine = f"{_scaled(speed, 1e12)} {precision}".strip()
        name = one.kernel[:NAME_WIDTH] if number == 0 else ""
        share = _of(speed, row["peak"].get(precision))
        rows.append([*(first if number == 0 else [""] * 4), mine, share, name])
    return rows


def _scaled(value: float | None, unit: float) -> str:
    return "" if value is None else f"{value / unit:,.2f}"


def _of(value: float | None, most: float | None) -> str:
    return "" if value is None or most is None else percent(value / most)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"
