"""Exercise 19.3: which rows of which old shard go where, when a checkpoint is loaded elsewhere."""

from collections.abc import Sequence

from dtlib.learn.answers import Answer
from dtlib.learn.explanations import numbers
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

moves = solution("moves", globals())


def case(rows, saved, loaded, rank):
    """A tensor's rows, how many ranks saved and load it, and which of them asks."""
    words = f"{rows} rows, saved at {saved}, loaded at {loaded}, rank {rank}"
    return words, (rows, saved, loaded, rank)


def read(got):
    """A list of (file, start, stop, to), all whole numbers."""
    if got is None:
        raise Wrong("none")
    if isinstance(got, str) or not isinstance(got, Sequence):
        raise Wrong("kind", got=type(got).__name__)
    for move in got:
        if not isinstance(move, Sequence) or len(move) != 4:
            raise Wrong("four", got=str(move)[:60])
        if not all(map(a_number, move)):
            raise Wrong("not_numbers", got=str(move)[:60])
        if any(x % 1 for x in move):
            raise Wrong("whole_numbers", got=str(move)[:60])
    return joined(sorted([tuple(int(x) for x in move) for move in got], key=lambda move: move[3]))


def a_number(x):
    """Whether `x` is one number, in a tensor or not."""
    if isinstance(x, bool | str):
        return False
    try:
        float(x)
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


def joined(found):
    """Entries that continue one another, as one."""
    result: list[tuple] = []
    for file, start, stop, to in found:
        before = result[-1] if result else (None, 0, 0, 0)
        if (file, start, to) == (before[0], before[2], before[3] + before[2] - before[1]) and (
            start < stop and before[1] < before[2]
        ):
            result[-1] = (file, before[1], stop, before[3])
        else:
            result.append((file, start, stop, to))
    return result


def size(rows, ranks, rank):
    """The rows of a rank."""
    each = -(-rows // ranks)
    return max(0, min(rows, (rank + 1) * each) - rank * each)


def empty(got):
    """A move of no rows."""
    return any(start >= stop for _, start, stop, _ in got)


def beyond(got, rows, saved):
    """A move that reads past the end of a file."""
    for file, start, stop, _ in got:
        if not 0 <= file < saved or start < 0 or stop > size(rows, saved, file):
            held = size(rows, saved, file) if 0 <= file < saved else 0
            return {"file": file, "start": start, "stop": stop, "held": held}
    return False


def filled(got, rows, loaded, rank):
    """Rows of the new shard that nobody fills, or that two fill."""
    here = [to + k for _, start, stop, to in got for k in range(stop - start)]
    want = size(rows, loaded, rank)
    missing = sorted({*range(want)} - {*here})
    return {"missing": numbers(missing[:6]), "want": want} if missing else False


def facts(got, want, rows, saved, loaded, rank):
    old, new = ([size(rows, n, r) for r in range(n)] for n in (saved, loaded))
    return {
        "got": str(got)[:90], "want": str(want)[:90], "old": numbers(old), "new": numbers(new),
        "mine": size(rows, loaded, rank),
    }  # fmt: skip


def passed(got, want):
    return Passed((("moves of 10 rows, from 4 to 3 ranks, rank 1", len(got[4]), len(want[4]), ""),))


def evenly(rows, saved, loaded, rank):
    """`tensor_split`'s sizes, which differ by one row at most."""

    def edges(n):
        return [r * (rows // n) + min(r, rows % n) for r in range(n + 1)]

    old, new = edges(saved), edges(loaded)
    found = []
    for file in range(saved):
        begin, end = max(new[rank], old[file]), min(new[rank + 1], old[file + 1])
        if begin < end:
            found.append((file, begin - old[file], end - old[file], begin - new[rank]))
    return found


# words of the solution
OLD, NEW = "old = -(-rows // saved)", "new = -(-rows // loaded)"
BEGIN, END = "begin = max(first, file * old)", "end = min(last, (file + 1) * old)"
MOVE = "(file, begin - file * old, end - file * old, begin - first)"

EXERCISE = Answer(
    moves,
    read=read,
    cases=[
        case(8, 2, 2, 1),
        case(8, 4, 2, 0),
        case(8, 4, 2, 1),
        case(8, 2, 4, 3),
        case(10, 4, 3, 1),
        case(10, 4, 3, 2),
        case(5, 4, 2, 1),  # the last of four ranks has no row
        case(9, 3, 4, 2),
        case(5, 2, 4, 3),  # this rank has no row
    ],
    mistakes=[
        ("swapped", lambda rows, saved, loaded, rank: moves(rows, loaded, saved, rank % saved)),
        ("even", evenly),
        ("rows_of_the_tensor", {MOVE: "(file, begin, end, begin - first)"}),
        ("to_of_the_tensor", {MOVE: "(file, begin - file * old, end - file * old, begin)"}),
        ("all_of_the_tensor", {MOVE: "(file, begin, end, begin)"}),
        ("to_zero", {MOVE: "(file, begin - file * old, end - file * old, 0)"}),
        ("whole_files", {MOVE: "(file, 0, old, file * old - first)"}),
        ("length", {MOVE: "(file, begin - file * old, end - begin, begin - first)"}),
        ("same_number", lambda rows, saved, loaded, rank: [(rank, 0, size(rows, loaded, rank), 0)]),
        ("inclusive", {MOVE: "(file, begin - file * old, end - file * old - 1, begin - first)"}),
        ("rounded_down", {OLD: "old = rows // saved", NEW: "new = rows // loaded"}),
        ("one_file", lambda *case: moves(*case)[:1]),
        Mistake("empty", {"if begin < end": "if begin <= end"}, when=empty),
        Mistake("beyond", when=beyond),
        Mistake("holes", when=filled),
    ],
    other="unrecognised",
    facts=facts,
    passed=passed,
)  # fmt: skip
