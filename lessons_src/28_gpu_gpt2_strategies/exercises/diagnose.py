"""Exercise 28.3: from a broken run's output to its cause.

The outputs are made for the check; their error lines are those of torch, DeepSpeed and Hugging
Face's libraries, and paths and numbers are made up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtlib.learn.asking import ask
from dtlib.learn.checking import Passed, Wrong

CAUSES = ("cudnn", "deepspeed", "memory", "launcher", "batch", "internet")
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB. GPU 1 has a total"
    " capacity of 23.65 GiB of which 512.00 MiB is free."
)
WATCHDOG = (
    "[rank{r}]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9,"
    " OpType=ALLREDUCE) ran for 600000 milliseconds before timing out."
)
BATCH = (
    "AssertionError: Check batch related parameters. train_batch_size is not equal to"
    " micro_batch_per_gpu * gradient_acc_step * world_size {} != {} * {} * {}"
)
MISMATCH = (
    "RuntimeError: cuDNN version incompatibility: PyTorch was compiled against (9, 10, 2) but"
    " found runtime version (8, 9, 2). Looks like your LD_LIBRARY_PATH contains incompatible"
    " version of cudnn"
)
HUB = (
    "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find"
    " them in the cached files."
)
HEALTHY = (
    "cudnn.benchmark is on, DeepSpeed 0.19.8\n"
    "GPU memory: 11.26 GiB allocated, 12.90 GiB reserved, 13.62 GiB peak\n"
    "step 10, batch 16, loss 3.127\nstep 20, batch 16, loss 3.044"
)

# what the smallest case shows, its output, its cause; each kind in several forms
LOGS: tuple[tuple[str, str, str | None], ...] = (
    ("torch does not start", "Traceback …\n  import torch\nImportError: libcudnn.so.9: cannot open"
     " shared object file: No such file or directory", "cudnn"),
    ("another version is found", f"loading gpt2-medium\nTraceback …\n{MISMATCH}", "cudnn"),
    ("a package is missing", "Traceback …\n  import deepspeed\nModuleNotFoundError: No module named"
     " 'deepspeed'", "deepspeed"),
    ("a card is full", f"step 1, loss 3.41\nTraceback …\n{OOM}", "memory"),
    ("a host is full", "Traceback …\nRuntimeError: [enforce fail at alloc_cpu.cpp:127]"
     " DefaultCPUAllocator: can't allocate memory: you tried to allocate 6230444800 bytes.",
     "memory"),
    ("an argument that nobody gave", "usage: train.py [-h] config\ntrain.py: error: unrecognized"
     " arguments: --local_rank=0", "launcher"),
    ("more processes than cards", "[rank3]: torch.AcceleratorError: CUDA error: invalid device"
     " ordinal", "launcher"),
    ("the numbers do not agree", f"DeepSpeed 0.19.8\nTraceback …\n{BATCH.format(16, 4, 1, 1)}",
     "batch"),
    ("other numbers, on four ranks", "\n".join(f"[rank{r}]: {BATCH.format(64, 8, 4, 4)}"
     for r in range(4)), "batch"),
    ("nobody answers", f"loading gpt2-medium\nTraceback …\n{HUB}", "internet"),
    ("no name server answers", "Downloading wikitext\nTraceback …\nsocket.gaierror: [Errno -3]"
     " Temporary failure in name resolution", "internet"),
    ("a script for a launcher, started by python", "  File \"deepspeed/comm/comm.py\", line 917, in"
     " mpi_discovery\n    from mpi4py import MPI\nModuleNotFoundError: No module named 'mpi4py'",
     "launcher"),
    ("one rank is full, and two wait for it", "\n".join(
     [f"[rank1]: {OOM}", *(WATCHDOG.format(r=r) for r in (0, 2))]), "memory"),
    ("the same, with the ranks that waited first", "\n".join(
     [*(WATCHDOG.format(r=r) for r in (0, 2)), f"[rank1]: {OOM}"]), "memory"),
    ("all is well", HEALTHY, None),
    ("a warning, and all is well", "UserWarning: cannot reach huggingface.co, using the cached"
     f" files\n{HEALTHY}", None),
)  # fmt: skip

SIGNS = (
    ("memory", ("outofmemoryerror", "can't allocate memory")),
    ("cudnn", ("error: libcudnn", "cudnn version incompatibility")),
    (
        "launcher",
        ("unrecognized arguments: --local_rank", "invalid device ordinal", "mpi_discovery"),
    ),
    ("deepspeed", ("no module named 'deepspeed'",)),
    ("batch", ("check batch related parameters",)),
    ("internet", ("couldn't connect to", "name resolution")),
)


def reference(log: str) -> str | None:
    """The first sign of a list, what is a cause before what may be its consequence."""
    text = log.lower()
    for cause, signs in SIGNS:
        if any(sign in text for sign in signs):
            return cause
    return None


def check(student: Callable[..., Any]) -> Passed:
    """Each of six causes in its own words, then the outputs that look like another one."""
    for label, log, want in LOGS:
        got = ask(student, log, case=label)
        if got != want:
            raise _explain(got, want, label, log)
    causes = len({want for _, _, want in LOGS if want})
    return Passed((("outputs", len(LOGS), len(LOGS), ""), ("causes", causes, len(CAUSES), "")))


def _explain(got: Any, want: str | None, label: str, log: str) -> Wrong:
    facts = {"got": str(got)[:40], "want": want, "last": log.splitlines()[-1][:120]}
    if got is not None and (not isinstance(got, str) or got not in CAUSES):
        return Wrong("no_cause", label, **facts)
    if want is None:
        return Wrong("warning" if "Warning" in log else "alarm", label, **facts)
    if "mpi4py" in log:
        return Wrong("mpi", label, **facts)
    if "Watchdog" in log:
        return Wrong("consequence" if got is None else "consequence_taken", label, **facts)
    if got is None:
        key = {
            "a host is full": "host",
            "no name server answers": "resolver",
            "another version is found": "version",
            "more processes than cards": "ordinal",
        }
        return Wrong(key.get(label, "silent"), label, **facts)  # fmt: skip
    return Wrong("mistaken", label, **facts)
