"""More answers to `my_schedule`, for the tests alone."""

from dtlib.scratch import pipeline as p

from ..exercises.mine import my_schedule

FORWARD = "lines.append(p.Forward(m + warm_up, rank))"
IF = "if m + warm_up < micro_batches:"
INPUT = "lines.append(p.BackwardInput(m, rank))"
WEIGHT = "lines.append(p.BackwardWeight(m - rank, rank))"
DONE = "if m < micro_batches:"


def delayed(by, warm=lambda rank, ranks: ranks - 1 - rank):
    """Weight gradients so many input gradients later, after some forwards."""

    def answer(rank, ranks, micro_batches):
        warm_up, wait = max(warm(rank, ranks), 0), by(rank, ranks)
        lines = [p.Forward(m, rank) for m in range(warm_up)]
        for m in range(micro_batches + wait):
            if m + warm_up < micro_batches:
                lines.append(p.Forward(m + warm_up, rank))
            if m < micro_batches:
                lines.append(p.BackwardInput(m, rank))
            if m >= wait:
                lines.append(p.BackwardWeight(m - wait, rank))
        return lines

    return answer


def whole(rank, ranks, micro_batches):
    """1F1B whose backwards are not split where nothing would be gained."""
    lines, late = [], []
    for line in p.one_forward_one_backward(rank, ranks, micro_batches):
        m = line.micro_batch
        if isinstance(line, p.Forward) or rank == 0:
            lines.append(line)
            continue
        lines.append(p.BackwardInput(m, rank))
        late.append(p.BackwardWeight(m, rank))
        lines += [late.pop(0)] if len(late) > rank else []
    return lines + late


def newest_first(rank, ranks, micro_batches):
    """What is left at the end, from the last micro-batch to the first."""
    lines = my_schedule(rank, ranks, micro_batches)
    return lines[: len(lines) - rank] + lines[len(lines) - rank :][::-1]


def swapped_halves(rank, ranks, micro_batches):
    other = {p.BackwardInput: p.BackwardWeight, p.BackwardWeight: p.BackwardInput}
    lines = delayed(lambda rank, ranks: 0)(rank, ranks, micro_batches)
    return [other.get(type(x), p.Forward)(x.micro_batch, x.stage) for x in lines]


def with_both(rank, ranks, micro_batches):
    return [*my_schedule(rank, ranks, micro_batches), p.Backward(0, rank)]


def all_forwards(rank, ranks, micro_batches):
    lines = my_schedule(rank, ranks, micro_batches)
    return sorted(lines, key=lambda line: not isinstance(line, p.Forward))


def weights_last(rank, ranks, micro_batches):
    lines = my_schedule(rank, ranks, micro_batches)
    return sorted(lines, key=lambda line: isinstance(line, p.BackwardWeight))


def split(lines):
    """Each backward in its two halves, one behind the other."""
    halves = ((p.BackwardInput, p.BackwardWeight), (p.Forward,))
    return [
        kind(line.micro_batch, line.stage)
        for line in lines
        for kind in halves[isinstance(line, p.Forward)]
    ]


def latest_first(rank, ranks, micro_batches):
    """The warm-up of 1F1B, and then always the backward of the latest forward."""
    lines, begun = [], []
    for m in range(micro_batches):
        lines.append(p.Forward(m, rank))
        begun.append(m)
        if m >= ranks - 1 - rank:
            lines.append(p.Backward(begun.pop(), rank))
    return split([*lines, *(p.Backward(m, rank) for m in reversed(begun))])


def turned_on_the_last(rank, ranks, micro_batches):
    """ZB-H1, but the last rank runs its micro-batches from the last to the first."""
    lines = my_schedule(rank, ranks, micro_batches)
    if rank < ranks - 1:
        return lines
    return [type(line)(micro_batches - 1 - line.micro_batch, rank) for line in lines]


def rounds(order):
    """GPipe with as many micro-batches as ranks, again and again; its backwards split."""

    def answer(rank, ranks, micro_batches):
        lines = []
        for first in range(0, micro_batches, ranks):
            some = range(first, min(first + ranks, micro_batches))
            lines += [p.Forward(m, rank) for m in some]
            lines += order(split([p.Backward(m, rank) for m in some]))
        return lines

    return answer


def emptied(rank, ranks, micro_batches):
    """1F1B of as many micro-batches as ranks, again and again."""
    lines = []
    for first in range(0, micro_batches, ranks):
        some = p.one_forward_one_backward(rank, ranks, min(ranks, micro_batches - first))
        lines += [type(line)(first + line.micro_batch, rank) for line in some]
    return split(lines)


def late_on_rank_1(rank, ranks, micro_batches):
    """Weight gradients late on rank 1 alone."""
    if rank == 1:
        return my_schedule(rank, ranks, micro_batches)
    return delayed(lambda rank, ranks: 0)(rank, ranks, micro_batches)


def late_by_half(rank, ranks, micro_batches):
    """Weight gradients late by half of the micro-batches; N is half of them in some cases."""
    ahead, done = ranks - rank, 0
    lines = [p.Forward(m, rank) for m in range(ahead)]
    for m in range(micro_batches):
        lines.append(p.BackwardInput(m, rank))
        if m >= micro_batches // 2 - ahead:
            lines.append(p.BackwardWeight(done, rank))
            done += 1
        if m + ahead < micro_batches:
            lines.append(p.Forward(m + ahead, rank))
    return lines + [p.BackwardWeight(m, rank) for m in range(done, micro_batches)]


def twice_as_many_as_ranks(rank, ranks, micro_batches):
    return my_schedule(rank, ranks, 2 * ranks)


def turned_round(rank, ranks, micro_batches):
    """The weight gradient of micro-batch m + rank behind the input gradient of micro-batch m."""
    lines = []
    for line in p.one_forward_one_backward(rank, ranks, micro_batches):
        m = line.micro_batch
        if isinstance(line, p.Forward):
            lines.append(line)
            continue
        lines.append(p.BackwardInput(m, rank))
        lines += [p.BackwardWeight(m + rank, rank)] if m + rank < micro_batches else []
    return lines


def no_input_on_rank_0(rank, ranks, micro_batches):
    """Nobody waits for rank 0's input gradients."""
    lines = my_schedule(rank, ranks, micro_batches)
    return [line for line in lines if rank > 0 or not isinstance(line, p.BackwardInput)]


def emptied_on_each_rank(rank, ranks, micro_batches):
    """As many forwards as 1F1B keeps, then their backwards, and so on."""
    lines, many = [], ranks - rank
    for first in range(0, micro_batches, many):
        some = range(first, min(first + many, micro_batches))
        lines += [p.Forward(m, rank) for m in some]
        lines += split([p.Backward(m, rank) for m in some])
    return lines


ALSO_WRONG = [
    ("keeps", late_by_half),
    ("no_forward", twice_as_many_as_ranks),
    ("weight_first", turned_round),
    ("no_input", no_input_on_rank_0),
    ("in_a_row", emptied_on_each_rank),
    ("ahead", delayed(lambda rank, ranks: 0, lambda rank, ranks: ranks - 1)),
    ("ahead", delayed(lambda rank, ranks: 1, lambda rank, ranks: ranks - 1)),
    ("ahead_and_kept", delayed(lambda rank, ranks: rank, lambda rank, ranks: ranks - rank)),
    ("ahead_and_kept", delayed(lambda rank, ranks: 0, lambda rank, ranks: 2 * (ranks - 1 - rank))),
    ("not_split", p.one_forward_one_backward),
    ("weights_at_once", delayed(lambda rank, ranks: 0)),
    ("one_at_a_time", delayed(lambda rank, ranks: 0, lambda rank, ranks: 0)),
    ("weights_last", weights_last),
    ("all_forwards_first", all_forwards),
    ("all_forwards_first", p.gpipe),
    ("one_more", delayed(lambda rank, ranks: rank + 1)),
    ("one_more", delayed(lambda rank, ranks: 1)),
    ("keeps", delayed(lambda rank, ranks: rank + 2)),
    ("keeps", delayed(lambda rank, ranks: ranks)),
    ("circle", delayed(lambda rank, ranks: 0, lambda rank, ranks: rank)),
    ("late", delayed(lambda rank, ranks: rank, lambda rank, ranks: ranks - 2 - rank)),
    ("late", delayed(lambda rank, ranks: 0, lambda rank, ranks: int(rank < ranks - 1))),
    ("order", latest_first),
    ("crossed", turned_on_the_last),
    ("rounds", rounds(lambda lines: lines)),
    ("rounds", rounds(lambda lines: sorted(lines, key=lambda x: isinstance(x, p.BackwardWeight)))),
    ("drains", emptied),
    ("idle", late_on_rank_1),
    ("no_weight", {"micro_batches + rank)": "micro_batches)"}),
    ("no_weight", {WEIGHT: "pass"}),
    ("no_backward", {INPUT: "pass", WEIGHT: "pass"}),
    ("weight_first", {INPUT: "lines.append(p.BackwardWeight(m, rank))",
                      WEIGHT: "lines.append(p.BackwardInput(m - rank, rank))"}),
    ("weight_first", swapped_halves),
    ("both", with_both),
    ("no_forward", {FORWARD: "pass"}),
    ("backward_first", {f"{IF}\n            {FORWARD}\n        {DONE}\n            {INPUT}":
                        f"{DONE}\n            {INPUT}\n        {IF}\n            {FORWARD}"}),
    ("twice", {"return lines": "return lines + [p.BackwardWeight(0, rank)]"}),
    ("no_micro_batch", {"m >= rank": "m >= 0"}),
    ("no_micro_batch", {DONE: "if True:"}),
    ("other_stage", {"p.BackwardInput(m, rank)": "p.BackwardInput(m, 0)"}),
    ("swapped", lambda rank, ranks, many: [
        type(line)(line.stage, line.micro_batch) for line in my_schedule(rank, ranks, many)]),
    ("no_instruction", lambda rank, ranks, many: "FBW"),
    ("none", lambda rank, ranks, many: my_schedule(rank, ranks, many).sort(key=str)),
    ("raised", lambda rank, ranks, many: 3),
]  # fmt: skip
ALSO_RIGHT = [p.zero_bubble_h1, newest_first, whole]
