"""Exercise 6.2: the batches of a rank that resumes an epoch which another number of ranks began."""

from dtlib.errors import counted
from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import listed
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

batches_left = solution("batches_left", globals())

# words of the solution
SEEN, SKIP = "taken * size * old_world", "order[seen:]"
STEPS, BEGIN = "len(rest) // (size * world)", "(step * world + rank) * size"


def read(value, order):
    """Lists of samples, from lists, arrays, tensors or a generator."""
    batches = [listed(batch, "flat") for batch in listed(value, "kind")]
    if any(isinstance(s, (list, tuple)) or getattr(s, "ndim", 0) for b in batches for s in b):
        raise Wrong("deep")
    numbers = [[to_number(sample) for sample in batch] for batch in batches]
    return [[int(n) if n.is_integer() else n for n in batch] for batch in numbers]


def facts(got, want, taken, old_world, world):
    return {
        "got": " | ".join(" ".join(map(str, b)) for b in got[:3]) or "nothing",
        "want": len(want), "many": counted(len(got), "batch", "batches"),
        "steps": counted(len(want), "whole step"), "batches": counted(taken, "batch", "batches"),
        "ranks": counted(world, "rank"), "old_ranks": counted(old_world, "rank"),
    }  # fmt: skip


def case(words, *arguments):
    return words, arguments


TWELVE = [25, 10, 39, 13, 31, 27, 11, 30, 24, 12, 28, 16]  # no sample is its own place
LONG, LONGER = ([(7 * k + 3) % n for k in range(n)] for n in (41, 47))
EXERCISE = Answer(
    batches_left,
    read=read,
    same=0.0,
    changed="changed",
    cases=[
        case("12 samples, batches of 2; 2 ranks took one each, and rank 0 of 1 resumes",
             TWELVE, 1, 2, 2, 0, 1),
        case("12 samples, batches of 2; 1 rank took one, and rank 1 of 2 resumes",
             TWELVE, 1, 2, 1, 1, 2),
        case("41 samples, batches of 3; 2 ranks took three each, and rank 2 of 3 resumes",
             LONG, 3, 3, 2, 2, 3),
        case("47 samples, batches of 3; 4 ranks took one each, and rank 0 of 3 resumes",
             LONGER, 1, 3, 4, 0, 3),
    ],
    mistakes=[
        ("new_world", {SEEN: "taken * size * world"}),
        ("own_alone", {SEEN: "taken * size"}),
        ("one_of_each", {SEEN: "size * old_world"}),
        ("no_size", {SEEN: "taken * old_world"}),
        ("from_the_start", {SKIP: "order"}),
        ("one_too_many", {SEEN: "(taken + 1) * size * old_world"}),
        ("one_too_few", {SEEN: "(taken - 1) * size * old_world"}),
        ("strided", {"rest[start : start + size] for start in starts":
                     "rest[k * size * world + rank : (k + 1) * size * world : world]"
                     " for k in range(steps)"}),
        ("blocks", {BEGIN: "(rank * steps + step) * size"}),
        ("first_rank", {BEGIN: "step * world * size"}),
        ("rank_alone", {BEGIN: "step * world * size + rank"}),
        ("places", {SKIP: "list(range(len(order)))[seen:]"}),
        Mistake("last_kept", {STEPS: "-(-len(rest) // (size * world))"},
                when=lambda got, want: len(got) > len(want) and got[: len(want)] == want),
        Mistake("too_few", {STEPS: "len(rest) // (size * world) - 1"},
                when=lambda got, want: len(got) < len(want) and got == want[: len(got)]),
        ("old_step", {STEPS: "len(rest) // (size * old_world)"}),
        ("old_step", {BEGIN: "(step * old_world + rank) * size"}),
        ("no_ranks", {BEGIN: "step * size", STEPS: "len(rest) // size"}),
        ("sorted", {SKIP: "sorted(order[seen:])"}),
        ("sorted", {SKIP: "sorted(order)[seen:]"}),
    ],
    facts=facts,
    passed=lambda got: Passed((("batches of rank 2 of 3", len(got[2]), 2, ""),)),
)  # fmt: skip
