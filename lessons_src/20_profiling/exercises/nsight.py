"""Exercise 20.5: the shares of a GPU's time, from an export of Nsight Systems.

A script makes the exports, so their shares are known; none was recorded on a GPU.
"""

import itertools
import operator

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import number, shown, told_apart, words
from dtlib.learn.solutions import altered, solution
from dtlib.learn.verdicts import Passed, Wrong

from ..made_export import made_export
from .busy import busy as union  # noqa: F401 (the solution uses it)

GEMM, SOFTMAX = "sm90_xmma_gemm_bf16", "softmax_warp_forward"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
SCATTER, SEND = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "ncclDevKernel_SendRecv"
# cuBLAS's own, and NCCL's before 2.19 and for symmetric memory
JET, OLD, SYMMETRIC = "nvjet_tst_128x256", "ncclKernel_AllReduce_RING", "ncclSymkDevKernel_AG"
PACK = "pack_for_nccl"
# Each case adds one thing: a kernel alone, a gap, two streams at once, nccl beside compute, copies,
# other streams with two nccl kernels at once and other names, two copies at once, a short kernel
# beside a long one, one that starts last and does not end last, and names that are nearly NCCL's.
CASES = (
    ("one kernel, 0–80 ns", [(7, GEMM, 0, 80)]),
    ("two kernels with a gap, 50–100 and 150–250 ns", [(7, GEMM, 50, 100), (7, SOFTMAX, 150, 250)]),
    ("two streams, 0–80 and 40–100 ns", [(7, GEMM, 0, 80), (8, SOFTMAX, 40, 100)]),
    (
        "a kernel 0–60, nccl 40–90, a kernel 95–100 ns",
        [(7, GEMM, 0, 60), (9, NCCL, 40, 90), (7, GEMM, 95, 100)],
    ),
    (
        "a copy 0–20, a kernel 10–60, nccl 50–100, a copy 120–130, a kernel 160–200 ns",
        [(10, "", 0, 20), (7, GEMM, 10, 60), (9, NCCL, 50, 100), (10, "", 120, 130),
         (7, SOFTMAX, 160, 200)],
    ),
    (
        "an elementwise kernel 0–30 on stream 9, nccl's reduce-scatter 20–60 on stream 13 and its"
        " send and receive 40–90 on stream 14, a kernel 100–110 ns on stream 9",
        [(9, "vectorized_elementwise_kernel", 0, 30), (13, SCATTER, 20, 60), (14, SEND, 40, 90),
         (9, SOFTMAX, 100, 110)],
    ),
    (
        "a copy to the device 0–40, a copy from it 20–70, a kernel 60–100 ns",
        [(10, "", 0, 40), (11, "", 20, 70), (7, GEMM, 60, 100)],
    ),
    (
        "a kernel 0–100, one 10–20 on another stream, one 150–200 ns",
        [(7, GEMM, 0, 100), (8, SOFTMAX, 10, 20), (7, GEMM, 150, 200)],
    ),
    (
        "a kernel 0–100, one 40–60 ns on another stream",
        [(7, GEMM, 0, 100), (8, SOFTMAX, 40, 60)],
    ),
    (
        f"kernels {PACK} 0–40, {JET} 40–70, {OLD} 60–90, {SYMMETRIC} 100–110 ns",
        [(7, PACK, 0, 40), (7, JET, 40, 70), (9, OLD, 60, 90), (9, SYMMETRIC, 100, 110)],
    ),
)  # fmt: skip
SHOWN = [  # the lesson's own export
    (7, GEMM, 1000, 9000), (9, NCCL, 6000, 14000), (10, "", 15000, 16000),
    (7, SOFTMAX, 18000, 21000),
]  # fmt: skip
KINDS = ("compute", "nccl", "copy", "idle")
query = """
    SELECT value, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL
    JOIN StringIds ON shortName = id
"""
# parts of the solution, and what mistakes make of some
SHARE, IDLE, NAMED = (
    "union(spans) / whole",
    "1 - union(everything) / whole",
    'name.startswith("nccl")',
)
NORMALISED = "return {kind: share / sum(shares.values()) for kind, share in shares.items()}"
SUMMED = {"union(spans)": "sum(e - b for b, e in spans)"}
BOUNDS = "min(b for b, _ in everything), max(e for _, e in everything)"
COPIES = 'kinds["copy"] = database.execute(copies).fetchall()'
ROUNDED = 0.0051  # what two digits after the point may leave out
KERNELS = '(kinds["compute"] + kinds["nccl"])'

gpu_shares = solution("gpu_shares", globals())
all_compute = altered(gpu_shares, {NAMED: "False"})


def read(got):
    """The four shares."""
    if got is None:
        raise Wrong("none")
    try:
        if isinstance(got, dict):
            return {kind: number(got[kind]) for kind in KINDS}
    except (KeyError, Wrong):
        pass
    raise Wrong("not_shares", got=shown(got, 60))


def near(a, b):
    """Whether two shares agree."""
    return abs(a - b) <= 1e-6


def first_wrong(got, want):
    """The kind whose share the sentence is about."""
    return next(kind for kind in KINDS if not near(got[kind], want[kind]))


def by_stream(database, belongs=operator.eq):
    """A mistake: NCCL's kernels are those on stream 9, or on 9 and above."""
    kernels = database.execute("SELECT streamId, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL")
    copies = database.execute("SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY")
    rows = [(stream, NCCL if belongs(stream, 9) else GEMM, *span) for stream, *span in kernels]
    return gpu_shares(made_export([*rows, *((10, "", *span) for span in copies)]))


def gaps(database):
    """A mistake: idle is what lies between a row and the next one."""
    rows = "SELECT start, end FROM CUPTI_ACTIVITY_KIND_"
    spans = sorted(row for kind in ("KERNEL", "MEMCPY") for row in database.execute(rows + kind))
    empty = sum(max(0, after[0] - row[1]) for row, after in itertools.pairwise(spans))
    whole = max(end for _, end in spans) - spans[0][0]
    return gpu_shares(database) | {"idle": empty / whole}


def bare(database):
    """A mistake: the nccl share is only what no other kernel hides."""
    shares, kernels = gpu_shares(database), all_compute(database)["compute"]
    return shares | {"nccl": kernels - shares["compute"]}


def one(key, program, also=lambda got: True):
    """A mistake, known by the first wrong share; the others may be wrong for other reasons, too."""
    errs = altered(gpu_shares, program) if isinstance(program, dict) else program

    def when(got, want, database):
        kind = first_wrong(got, want)
        value = errs(database)[kind]
        return near(got[kind], value) and not near(value, want[kind]) and also(got)

    return Mistake(key, errs, when)


def facts(got, want):
    """The first share that is wrong."""
    kind = first_wrong(got, want)
    mine, right = told_apart(got[kind], want[kind])
    return {"got": mine, "want": right, "kind": kind}


EXERCISE = Answer(
    gpu_shares,
    read=read,
    same=lambda a, b: all(near(a[kind], b[kind]) for kind in KINDS),
    cases=[(label, lambda rows=rows: (made_export(rows),)) for label, rows in CASES],
    mistakes=[
        one("from_zero", {"whole = end - begin": "whole = end"}),
        one("summed", {NAMED: "False", **SUMMED}),
        one("nccl_in_compute", {NAMED: "False"}),
        one("of_the_busy", {SHARE: "union(spans) / union(everything)"}),
        one("summed", SUMMED),
        one("not_found", lambda database: gpu_shares(database) | {"nccl": 0}),
        one("not_found", lambda database: gpu_shares(database) | {"copy": 0}),
        one("idle_by_difference", {IDLE: "1 - sum(shares.values())"}),
        one("idle_by_difference", {IDLE: "max(0, 1 - sum(shares.values()))"}),
        one(
            "copies_are_idle",
            {IDLE: IDLE.replace("everything", 'kinds["compute"] + kinds["nccl"]')},
        ),
        one("window", {BOUNDS: BOUNDS.replace("everything", KERNELS)}, lambda got: got["copy"] > 0),
        one("no_copies", {COPIES: 'kinds["copy"] = []'}),
        one("by_stream", by_stream),
        one("by_stream", lambda database: by_stream(database, operator.ge)),
        one("exposed_nccl", bare),
        one("copies_in_compute", {COPIES: f'{COPIES}; kinds["compute"] += kinds["copy"]'}),
        one("last_started", {"max(e for _, e in everything)": "max(everything)[1]"}),
        Mistake(
            "rounded",
            lambda database: {k: round(v, 2) for k, v in gpu_shares(database).items()},
            when=lambda got, want: all(abs(got[k] - want[k]) <= ROUNDED for k in KINDS),
        ),
        *(
            one("other_names", {NAMED: condition})
            for condition in (
                '"AllReduce" in name',
                '"RING" in name',
                "name == NCCL",
                '"gemm" not in name and "softmax" not in name',
                'name.startswith("ncclDev")',
                'name.startswith("ncclDevKernel")',
                'name.startswith("n")',
                'name.lower().startswith("n")',
                '"Dev" in name',
            )
        ),
        one("gaps", gaps),
        ("exchanged", {NAMED: f"not {NAMED}"}),
        one("inside_the_name", {NAMED: '"nccl" in name'}),
        one("inside_the_name", {NAMED: '"nccl" in name.lower()'}),
        ("same_export", lambda database: gpu_shares(made_export(SHOWN))),
        one("normalised", {"return shares": NORMALISED}),
        one("nanoseconds", {SHARE: "union(spans)"}),
        one("percent", lambda database: {k: 100 * v for k, v in gpu_shares(database).items()}),
    ],
    facts=facts,
    passed=lambda got, want: Passed(
        tuple((kind, words(got[4][kind]), words(want[4][kind]), "") for kind in KINDS)
    ),
)
