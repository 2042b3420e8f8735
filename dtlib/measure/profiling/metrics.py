"""Which of Nsight Compute's metrics count floating-point operations and bytes.

Tensor cores have counters of their own, in operations by the type of what they multiply: a product
of two 1024×1024 matrices counts 2·1024³. Everything else is counted in instructions of threads, a
fused multiply-add as two operations, as ncu's own roofline does.

https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html#roofline-charts
"""

from __future__ import annotations

from collections.abc import Mapping

DURATION = "gpu__time_duration.sum"
_TENSOR = "sm__ops_path_tensor_src_"
_THREAD = "smsp__sass_thread_inst_executed_op_"

# By precision, ways to count: the first whose metrics are there, so that a whole is never added to
# its parts. A way is a sum.
_WAYS: dict[str, tuple[tuple[str, ...], ...]] = {
    "fp8": ((f"{_TENSOR}fp8",), (f"{_TENSOR}fp8_dst_fp16", f"{_TENSOR}fp8_dst_fp32")),
    "bf16": ((f"{_TENSOR}bf16_dst_fp32",),),
    "fp16": ((f"{_TENSOR}fp16",), (f"{_TENSOR}fp16_dst_fp16", f"{_TENSOR}fp16_dst_fp32")),
    "tf32": ((f"{_TENSOR}tf32_dst_fp32",),),
    "fp64": ((f"{_TENSOR}fp64",),),
}
_THREADS = {"fp16": "h", "fp32": "f", "fp64": "d"}
_OPERATIONS = ("add", "mul", "fma")
# Reads and writes are named otherwise on the newest chips.
_BYTES = (
    ("dram__bytes.sum",),
    ("dram__bytes_read.sum", "dram__bytes_write.sum"),
    ("dram__bytes_op_read.sum", "dram__bytes_op_write.sum"),
)

WANTED = (
    DURATION,
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    *(f"{name}.sum" for ways in _WAYS.values() for name in ways[0]),
    *(f"{_THREAD}{x}{what}_pred_on.sum" for x in _THREADS.values() for what in _OPERATIONS),
)
"""What the command line asks ncu for; a chip without one prints n/a for it."""


def flop(values: Mapping[str, float]) -> dict[str, float]:
    """Return a kernel's floating-point operations by precision; what was not counted is left out.

    `values` are its metrics in base units, by their names with suffix.
    """
    found: dict[str, float] = {}
    for precision, ways in _WAYS.items():
        for way in ways:
            parts = [_count(values, name) for name in way]
            if any(part is not None for part in parts):
                found[precision] = sum(part or 0.0 for part in parts)
                break
    for precision, letter in _THREADS.items():
        names = {f"{_THREAD}{letter}{what}_pred_on": 1 + (what == "fma") for what in _OPERATIONS}
        counted = [(_count(values, name), factor) for name, factor in names.items()]
        if all(count is not None for count, _ in counted):
            own = sum((count or 0.0) * factor for count, factor in counted)
            found[precision] = found.get(precision, 0.0) + own
    return found


def _count(values: Mapping[str, float], name: str) -> float | None:
    """Return how often something happened in a kernel.

    The set `roofline` has it per cycle, and the cycles of a second.
    """
    if f"{name}.sum" in values:
        return values[f"{name}.sum"]
    per_cycle = values.get(f"{name}.sum.per_cycle_elapsed")
    unit = name.split("__")[0]
    cycles = values.get(f"{unit}__cycles_elapsed.avg.per_second")
    if per_cycle is None or cycles is None or DURATION not in values:
        return None
    return per_cycle * cycles * values[DURATION]


def dram_bytes(values: Mapping[str, float]) -> float | None:
    """Return the bytes that a kernel read from and wrote to the GPU's memory, or None."""
    for names in _BYTES:
        if all(name in values for name in names):
            return sum(values[name] for name in names)
    per_second = values.get("dram__bytes.sum.per_second")
    return per_second * values[DURATION] if per_second and DURATION in values else None
