"""Answers to lesson 20's last exercise, the shares of an export of Nsight Systems."""

from dtlib.measure.profiling.intervals import length, union

NAMED = "SELECT value, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON shortName = id"
COPIES = "SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY"


def spans(database):
    found = {"compute": [], "nccl": [], "copy": database.execute(COPIES).fetchall()}
    for name, start, end in database.execute(NAMED):
        found["nccl" if "nccl" in name else "compute"].append((start, end))
    return found


def window(kinds):
    everything = [span for some in kinds.values() for span in some]
    return everything, max(e for _, e in everything) - min(b for b, _ in everything)


def shares(kinds, whole, size=lambda some: length(union(some))):
    return {kind: size(some) / whole for kind, some in kinds.items()}


def adds_durations(database):
    kinds = spans(database)
    everything, whole = window(kinds)
    found = shares(kinds, whole, lambda some: sum(e - b for b, e in some))
    return {**found, "idle": 1 - length(union(everything)) / whole}


def of_what_was_busy(database):
    kinds = spans(database)
    total = sum(e - b for some in kinds.values() for b, e in some)
    found = shares(kinds, total, lambda some: sum(e - b for b, e in some))
    return {**found, "idle": 0.0}


def all_kernels_compute(database):
    kinds = spans(database)
    everything, whole = window(kinds)
    found = shares({**kinds, "compute": kinds["compute"] + kinds["nccl"]}, whole)
    return {**found, "idle": 1 - length(union(everything)) / whole}


def looks_for_another_name(database):
    kinds = spans(database)
    everything, whole = window(kinds)
    return {**shares({**kinds, "nccl": []}, whole), "idle": 1 - length(union(everything)) / whole}


def idle_is_the_rest(database):
    kinds = spans(database)
    found = shares(kinds, window(kinds)[1])
    return {**found, "idle": 1 - sum(found.values())}


def copies_count_as_idle(database):
    kinds = spans(database)
    _, whole = window(kinds)
    kernels = kinds["compute"] + kinds["nccl"]
    return {**shares(kinds, whole), "idle": 1 - length(union(kernels)) / whole}


def from_zero(database):
    kinds = spans(database)
    everything, _ = window(kinds)
    whole = max(e for _, e in everything)
    return {**shares(kinds, whole), "idle": 1 - length(union(everything)) / whole}


def in_percent(database):
    kinds = spans(database)
    everything, whole = window(kinds)
    found = {**shares(kinds, whole), "idle": 1 - length(union(everything)) / whole}
    return {kind: 100 * share for kind, share in found.items()}


def only_kernels(database):
    kinds = spans(database)
    return length(union(kinds["compute"])) / window(kinds)[1]


def all_alike(database):
    return {"compute": 0.25, "nccl": 0.25, "copy": 0.25, "idle": 0.25}


# Right.
def by_hand(database):
    kinds = spans(database)
    everything, whole = window(kinds)

    def busy(some):
        total, reached = 0, -1
        for begin, end in sorted(some):
            total += max(0, end - max(begin, reached))
            reached = max(reached, end)
        return total

    found = {kind: busy(some) / whole for kind, some in kinds.items()}
    found["idle"] = (whole - busy(everything)) / whole
    return found


def by_nanoseconds(database):
    kinds = spans(database)
    everything, _ = window(kinds)
    begin, end = min(b for b, _ in everything), max(e for _, e in everything)
    found = dict.fromkeys((*kinds, "idle"), 0)
    for tick in range(begin, end):
        hit = [kind for kind, some in kinds.items() if any(b <= tick < e for b, e in some)]
        for kind in hit or ["idle"]:
            found[kind] += 1 / (end - begin)
    return found


WRONG = [
    ("gpu_shares", "summed", adds_durations),
    ("gpu_shares", "of_the_busy", of_what_was_busy),
    ("gpu_shares", "nccl_in_compute", all_kernels_compute),
    ("gpu_shares", "not_found", looks_for_another_name),
    ("gpu_shares", "idle_by_difference", idle_is_the_rest),
    ("gpu_shares", "copies_are_idle", copies_count_as_idle),
    ("gpu_shares", "from_zero", from_zero),
    ("gpu_shares", "percent", in_percent),
    ("gpu_shares", "not_shares", only_kernels),
    ("gpu_shares", "other", all_alike),
]

RIGHT = [("gpu_shares", by_hand), ("gpu_shares", by_nanoseconds)]
