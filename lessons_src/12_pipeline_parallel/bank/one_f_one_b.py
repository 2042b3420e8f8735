"""More answers to `one_f_one_b`, for the tests alone."""

import itertools

from dtlib.scratch import pipeline as p

from ..exercises.one_f_one_b import one_f_one_b

WARM = "min(ranks - 1 - rank, micro_batches)"
REST, LAST = "backwards[micro_batches - warm_up :]", "return lines + "
PAIR = "lines += [forward, backward]"


def with_warm_up(many):
    """1F1B with another number of forwards first."""

    def answer(rank, ranks, micro_batches):
        warm_up = max(0, min(many(rank, ranks), micro_batches))
        lines = [p.Forward(m, rank) for m in range(warm_up)]
        for m in range(micro_batches):
            if m + warm_up < micro_batches:
                lines.append(p.Forward(m + warm_up, rank))
            lines.append(p.Backward(m, rank))
        return lines

    return answer


def last_first(rank, ranks, micro_batches):
    """1F1B whose last backwards come in the opposite order."""
    lines = one_f_one_b(rank, ranks, micro_batches)
    warm_up = min(ranks - 1 - rank, micro_batches)
    return lines[: len(lines) - warm_up] + lines[len(lines) - warm_up :][::-1]


def latest_first(rank, ranks, micro_batches):
    """The warm-up of 1F1B, and then always the backward of the latest forward."""
    lines, begun = [], []
    for m in range(micro_batches):
        lines.append(p.Forward(m, rank))
        begun.append(m)
        if m >= ranks - 1 - rank:
            lines.append(p.Backward(begun.pop(), rank))
    return [*lines, *(p.Backward(m, rank) for m in reversed(begun))]


def turned_on_the_last(rank, ranks, micro_batches):
    """1F1B, but the last rank runs its micro-batches from the last to the first."""
    lines = one_f_one_b(rank, ranks, micro_batches)
    if rank < ranks - 1:
        return lines
    return [type(line)(micro_batches - 1 - line.micro_batch, rank) for line in lines]


def rounds(rank, ranks, micro_batches):
    """GPipe with as many micro-batches as ranks, again and again."""
    lines = []
    for first in range(0, micro_batches, ranks):
        some = range(first, min(first + ranks, micro_batches))
        lines += [p.Forward(m, rank) for m in some] + [p.Backward(m, rank) for m in some]
    return lines


def emptied(rank, ranks, micro_batches):
    """1F1B of as many micro-batches as ranks, again and again."""
    lines = []
    for first in range(0, micro_batches, ranks):
        some = one_f_one_b(rank, ranks, min(ranks, micro_batches - first))
        lines += [type(line)(first + line.micro_batch, rank) for line in some]
    return lines


def emptied_on_each_rank(rank, ranks, micro_batches):
    """As many forwards as a rank may keep, then their backwards, and so on."""
    lines, many = [], ranks - rank
    for first in range(0, micro_batches, many):
        some = range(first, min(first + many, micro_batches))
        lines += [p.Forward(m, rank) for m in some] + [p.Backward(m, rank) for m in some]
    return lines


def in_pairs(rank, ranks, micro_batches):
    """The warm-up of 1F1B, then two forwards and two backwards in turn."""
    forwards = [p.Forward(m, rank) for m in range(micro_batches)]
    backwards = [p.Backward(m, rank) for m in range(micro_batches)]
    ahead = min(ranks - 1 - rank, micro_batches)
    lines = forwards[:ahead]
    for first in range(0, micro_batches - ahead, 2):
        lines += forwards[ahead + first : ahead + first + 2] + backwards[first : first + 2]
    return lines + [line for line in backwards if line not in lines]


def ends_with_the_first(rank, ranks, micro_batches):
    """Each forward with the backward of the same micro-batch, and the warm-up's at the end."""
    ahead = min(ranks - 1 - rank, micro_batches)
    lines = [p.Forward(m, rank) for m in range(ahead)]
    for m in range(ahead, micro_batches):
        lines += [p.Forward(m, rank), p.Backward(m, rank)]
    return lines + [p.Backward(m, rank) for m in range(ahead)]


def by_counting(rank, ranks, micro_batches):
    """A forward as long as few are kept, otherwise a backward."""
    lines, forwards, backwards = [], 0, 0
    while backwards < micro_batches:
        if forwards < micro_batches and forwards - backwards < ranks - rank:
            lines.append(p.Forward(forwards, rank))
            forwards += 1
        else:
            lines.append(p.Backward(backwards, rank))
            backwards += 1
    return lines


def yields(rank, ranks, micro_batches):
    ahead = ranks - rank - 1
    for tick in range(micro_batches + ahead):
        if tick < micro_batches:
            yield p.Forward(tick, rank)
        if tick >= ahead:
            yield p.Backward(tick - ahead, rank)


def never_ends(rank, ranks, micro_batches):
    return itertools.repeat(p.Forward(0, rank))


ALSO_WRONG = [
    ("all_forwards_first", p.gpipe),
    ("all_forwards_first", {WARM: "micro_batches"}),
    ("one_too_many", with_warm_up(lambda rank, ranks: ranks - rank)),
    ("same_everywhere", with_warm_up(lambda rank, ranks: ranks - 1)),
    ("keeps", with_warm_up(lambda rank, ranks: 2 * (ranks - 1 - rank))),
    ("one_at_a_time", with_warm_up(lambda rank, ranks: 0)),
    ("late", with_warm_up(lambda rank, ranks: ranks - 2 - rank)),
    ("late", with_warm_up(lambda rank, ranks: int(rank < ranks - 1))),
    ("late", with_warm_up(lambda rank, ranks: ranks - 1 if rank == 0 else 0)),
    ("keeps", with_warm_up(lambda rank, ranks: 3 * (ranks - 1 - rank))),
    ("rounds", rounds),
    ("drains", emptied),
    ("crossed", turned_on_the_last),
    ("order", latest_first),
    ("circle", with_warm_up(lambda rank, ranks: rank)),
    ("order", last_first),
    ("order", ends_with_the_first),
    ("in_a_row", emptied_on_each_rank),
    ("keeps_in_a_row", in_pairs),
    ("halves", lambda rank, ranks, many: [
        line for f in one_f_one_b(rank, ranks, many) for line in
        ([f] if isinstance(f, p.Forward) else
         [p.BackwardInput(f.micro_batch, rank), p.BackwardWeight(f.micro_batch, rank)])]),
    ("no_backward", {f"{LAST}{REST}": "return lines"}),
    ("no_backward", {PAIR: "lines += [forward]"}),
    ("no_forward", {PAIR: "lines += [backward]"}),
    ("no_forward", lambda rank, ranks, many: []),
    ("backward_first", {"[forward, backward]": "[backward, forward]"}),
    ("twice", {REST: "backwards"}),
    ("twice", {"zip(forwards[warm_up:], backwards)": "zip(forwards, backwards)"}),
    ("no_micro_batch", {
        "p.Forward(m, rank) for m in range(micro_batches)":
        "p.Forward(m, rank) for m in range(1, micro_batches + 1)"}),
    ("other_stage", {"p.Forward(m, rank)": "p.Forward(m, 0)"}),
    ("other_stage", lambda rank, ranks, many: one_f_one_b(0, ranks, many)),
    ("swapped", {"p.Forward(m, rank)": "p.Forward(rank, m)",
                 "p.Backward(m, rank)": "p.Backward(rank, m)"}),
    ("no_instruction", lambda rank, ranks, many: ["F0", "B0"]),
    ("no_instruction", {"p.Forward(m, rank)": "p.Forward"}),
    ("no_instruction", lambda rank, ranks, many: [one_f_one_b(rank, ranks, many)]),
    ("no_instruction", lambda rank, ranks, many: p.with_messages(
        p.for_all_ranks(one_f_one_b, 2, many))[rank]),
    ("none", lambda rank, ranks, many: one_f_one_b(rank, ranks, many).sort(key=str)),
    ("raised", lambda rank, ranks, many: 3),
    ("twice", never_ends),
]  # fmt: skip
ALSO_RIGHT = [by_counting, yields, p.one_forward_one_backward]
