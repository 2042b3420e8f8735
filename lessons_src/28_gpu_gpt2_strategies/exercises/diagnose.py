"""Exercise 28.3: from a broken run's output to the cause.

The outputs are written for this check. Their error lines are those of torch, DeepSpeed and Hugging
Face's libraries; paths and numbers are made up.
"""

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

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
WAITED = [WATCHDOG.format(r=r) for r in (0, 2)]

# The words for a case, and the output of its run; some causes come in several forms.
LOGS = (
    ("torch does not start", "Traceback …\n  import torch\nImportError: libcudnn.so.9: cannot open"
     " shared object file: No such file or directory"),
    ("another version is found", f"loading gpt2-medium\nTraceback …\n{MISMATCH}"),
    ("a package is missing", "Traceback …\n  import deepspeed\nModuleNotFoundError: No module named"
     " 'deepspeed'"),
    ("a card is full", f"step 1, loss 3.41\nTraceback …\n{OOM}"),
    ("a host is full", "Traceback …\nRuntimeError: [enforce fail at alloc_cpu.cpp:127]"
     " DefaultCPUAllocator: can't allocate memory: you tried to allocate 6230444800 bytes."),
    ("an argument that nobody gave", "usage: train.py [-h] config\ntrain.py: error: unrecognized"
     " arguments: --local_rank=0"),
    ("more processes than cards", "[rank3]: torch.AcceleratorError: CUDA error: invalid device"
     " ordinal"),
    ("the numbers do not agree", f"DeepSpeed 0.19.8\nTraceback …\n{BATCH.format(16, 4, 1, 1)}"),
    ("other numbers, on four ranks", "\n".join(f"[rank{r}]: {BATCH.format(64, 8, 4, 4)}"
     for r in range(4))),
    ("the hub does not answer", f"loading gpt2-medium\nTraceback …\n{HUB}"),
    ("no name server answers", "Downloading wikitext\nTraceback …\nsocket.gaierror: [Errno -3]"
     " Temporary failure in name resolution"),
    ("a script for a launcher, started by python", "  File \"deepspeed/comm/comm.py\", line 917, in"
     " mpi_discovery\n    from mpi4py import MPI\nModuleNotFoundError: No module named 'mpi4py'"),
    ("one rank is full, and two wait for it", "\n".join([f"[rank1]: {OOM}", *WAITED])),
    ("the same, with the ranks that waited first", "\n".join([*WAITED, f"[rank1]: {OOM}"])),
    ("all is well", HEALTHY),
    ("a warning, and all is well", "UserWarning: cannot reach huggingface.co, using the cached"
     f" files\n{HEALTHY}"),
)  # fmt: skip
MISSED = {
    "a host is full": "host",
    "no name server answers": "resolver",
    "another version is found": "version",
    "more processes than cards": "ordinal",
}


def read(got):
    """Read one of the causes, or None."""
    if got is not None and (not isinstance(got, str) or got not in CAUSES):
        raise Wrong("no_cause", got=str(got)[:40])
    return got


def missed(key):
    """Recognise None for an output whose sentence in `MISSED` (by default "silent") is `key`."""
    return lambda got, case: got is None and MISSED.get(case, "silent") == key


diagnose = solution("diagnose", globals())

EXERCISE = Answer(
    diagnose,
    other="unrecognised",
    read=read,
    cases=[(label, (log,)) for label, log in LOGS],
    mistakes=[
        Mistake("warning", {'"couldn\'t connect to"': '"couldn\'t connect to", "huggingface.co"'},
                when=lambda want, log: want is None and "Warning" in log),
        Mistake("alarm", {'"OutOfMemoryError"': '"OutOfMemory", "memory"'},
                when=lambda want: want is None),
        Mistake("mpi", {', "mpi4py"': "", "No module named 'deepspeed'": "ModuleNotFound"},
                when=lambda log: "mpi4py" in log),
        Mistake("consequence",
                {"word in log": "word in (log.splitlines()[-1] if 'Watchdog' in log else log)"},
                when=lambda got, log: "Watchdog" in log and got is None),
        Mistake(
            "consequence_taken",
            {"signs = {": 'signs = {"internet": ["Watchdog"]} if "Watchdog" in log[-200:] else {'},
            when=lambda log: "Watchdog" in log,
        ),
        Mistake("host", {", \"can't allocate memory\"": ""}, when=missed("host")),
        Mistake("version", {', "cuDNN version incompatibility"': ""}, when=missed("version")),
        Mistake("resolver", {', "name resolution"': ""}, when=missed("resolver")),
        Mistake("ordinal", {'"device ordinal", ': ""}, when=missed("ordinal")),
        Mistake("silent", {'["Check batch related parameters"]': "[]"}, when=missed("silent")),
        Mistake("mistaken", {'"OutOfMemoryError"': '"OutOfMemoryError", "AssertionError"'},
                when=lambda: True),
    ],
    facts=lambda got, want, log: {"got": got, "want": want, "last": log.splitlines()[-1][:120]},
    passed=lambda got, want: Passed(
        (
            ("outputs", len(got), len(LOGS), ""),
            ("causes", len(set(want) - {None}), len(CAUSES), ""),
        )
    ),
)  # fmt: skip
