"""More answers to `gpu_shares`, for the tests alone."""

from dtlib.measure.profiling.intervals import length, union

from ..exercises.nsight import KINDS, gpu_shares
from ..made_export import spans_of


def by_library(database):
    kinds = spans_of(database)
    everything = [span for spans in kinds.values() for span in spans]
    whole = max(end for _, end in everything) - min(begin for begin, _ in everything)
    shares = {kind: length(union(spans)) / whole for kind, spans in kinds.items()}
    return {**shares, "idle": 1 - length(union(everything)) / whole}


def all_summed(database):
    kinds = spans_of(database)
    everything = [span for spans in kinds.values() for span in spans]
    whole = max(end for _, end in everything) - min(begin for begin, _ in everything)
    shares = {kind: sum(e - b for b, e in spans) / whole for kind, spans in kinds.items()}
    return {**shares, "idle": max(0.0, 1 - sum(shares.values()))}


def by_nanoseconds(database):
    kinds = {
        kind: [(round(b * 1e9), round(e * 1e9)) for b, e in some]
        for kind, some in spans_of(database).items()
    }
    everything = [span for some in kinds.values() for span in some]
    begin, end = min(b for b, _ in everything), max(e for _, e in everything)
    found = dict.fromkeys((*kinds, "idle"), 0)
    for tick in range(begin, end):
        hit = [kind for kind, some in kinds.items() if any(b <= tick < e for b, e in some)]
        for kind in hit or ["idle"]:
            found[kind] += 1 / (end - begin)
    return found


ALSO_WRONG = [
    ("not_shares", lambda database: gpu_shares(database)["compute"]),
    ("other", lambda database: dict.fromkeys(KINDS, 0.25)),
    ("summed", all_summed),
    ("summed", lambda database: gpu_shares(database) | {"nccl": all_summed(database)["nccl"]}),
    ("summed", lambda database: gpu_shares(database) | {"copy": all_summed(database)["copy"]}),
]
ALSO_RIGHT = [by_library, by_nanoseconds]
