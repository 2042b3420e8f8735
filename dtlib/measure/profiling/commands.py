"""Command lines of NVIDIA's profilers around a run; nothing here starts them.

Under torchrun or srun every rank runs its own profiler, and the profiler puts the rank into the
file's name (`%q{RANK}`). A run that starts its ranks itself has one profiler for all of them.

Nsight Systems: https://docs.nvidia.com/nsight-systems/UserGuide/index.html
Nsight Compute: https://docs.nvidia.com/nsight-compute/NsightComputeCli/index.html
"""

from __future__ import annotations

from collections.abc import Sequence

from dtlib.errors import BadInput
from dtlib.measure.profiling.metrics import WANTED

TRACE = ("cuda", "nvtx", "osrt", "cudnn", "cublas")
# Matrix products, convolutions, attention: these do a step's FLOP. No NCCL kernels: ncu repeats
# each kernel, one at a time, and a collective that waits for other ranks would then never end.
KERNELS = "gemm|nvjet|cutlass|xmma|conv|fmha|flash"
SETS = ("basic", "detailed", "full", "roofline")
# Neither profiler follows a process that was forked without running a program of its own.
OWN_RANKS = ("env", "DTLIB_START=spawn")
VARIABLES = {"torchrun": "RANK", "srun": "SLURM_PROCID"}  # by what started it, a rank's variable


def nsys(
    command: Sequence[str], *, out: str = "nsys", first: int = 5, last: int = 7,
    variable: str | None = None, trace: Sequence[str] = TRACE,
) -> list[str]:  # fmt: skip
    """Return the words that run a `dtlib train` command under Nsight Systems.

    Steps `first` to `last` are recorded, in the report `OUT.rankR.nsys-rep` (`OUT.nsys-rep` if one
    profiler has all ranks) and as SQLite beside it, which `read` takes.

    `command` is `[…, "train", "text", …]`; the flags that mark and capture its steps, counted from
    1, are added. `out` is the report's path without its extension, `trace` what is traced.
    `variable` is the one of `VARIABLES` that has the rank; None: the run starts its ranks itself,
    under one profiler. Raises `BadInput` when the range of steps is not valid.
    """
    return [
        *(() if variable else OWN_RANKS),
        "nsys", "profile",
        f"--trace={','.join(trace)}",
        "--sample=none", "--cpuctxsw=none",  # for the CPU, only NVTX and the traces
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",  # the default ends the run together with the capture
        "--cuda-graph-trace=node",  # otherwise a graph, as torch.compile may make, is one kernel
        "--export=sqlite",
        "--force-overwrite=true",
        f"--output={named(out, variable)}",
        *marked(command, first, last),
    ]  # fmt: skip


def ncu(
    command: Sequence[str], *, out: str = "ncu", first: int = 5, last: int = 7,
    variable: str | None = None, kernels: str = KERNELS, skip: int = 0, count: int = 20,
    sections: str = "basic",
) -> list[str]:  # fmt: skip
    """Return the words that run a `dtlib train` command under Nsight Compute.

    As `nsys`; the report is `OUT.rankR.ncu-rep`. It measures `count` kernels whose names match the
    regular expression `kernels`, after the first `skip`. `sections` is ncu's set of sections, one
    of `SETS`; the metrics of FLOP and bytes that `dtlib profile read` needs are always measured.
    Raises `BadInput` when the range of steps is not valid, the set does not exist, or nothing would
    be measured.
    """
    if sections not in SETS:
        raise BadInput(f"unknown set {sections!r}; choose from {', '.join(SETS)}.")
    if skip < 0 or count < 1:
        raise BadInput(f"skip is {skip} and count {count}; they must be at least 0 and 1.")
    return [
        *(() if variable else OWN_RANKS),
        "ncu",
        "--target-processes=all",
        "--profile-from-start=off",  # from cudaProfilerStart on
        f"--kernel-name=regex:{kernels}",
        f"--launch-skip={skip}",
        f"--launch-count={count}",
        f"--set={sections}",
        f"--metrics={','.join(WANTED)}",
        "--force-overwrite",
        f"--export={named(out, variable)}",
        *marked(command, first, last),
    ]


def ncu_csv(report: str) -> list[str]:
    """Return the words that print a report of ncu as CSV: one row per kernel, in base units."""
    return ["ncu", f"--import={report}", "--csv", "--page=raw", "--print-units=base"]


def named(out: str, variable: str | None) -> str:
    """Return the report's name: both profilers replace `%q{}` by a variable's value."""
    return out.replace("%", "%%") + (f".rank%q{{{variable}}}" if variable else "")


def marked(command: Sequence[str], first: int, last: int) -> list[str]:
    """Return a `dtlib train` command that marks its steps and captures `first` to `last`."""
    if not 1 <= first <= last:
        raise BadInput(
            f"first is {first} and last is {last}; steps count from 1, and last comes after first."
        )
    return [*command, "--nvtx", "--nvtx-first", str(first), "--nvtx-last", str(last)]
