"""Exercise 18.4: when each chunk is read, updated and written, with so many windows."""

from dtlib.learn.answers import Answer
from dtlib.learn.calls import to_number
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import listed, row_of, shown
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

PARTS = ("read", "updated", "written")
BEFORE = "done[i - 1] if i else (0, 0, 0)"
FREE = "done[i - windows][2] if i >= windows else 0"  # words of the solution

finish_times = solution("finish_times", globals())


def case(words, read, update, write, windows):
    label = f"{words}, {windows} window{'s' * (windows > 1)}"
    return label, (list(read), list(update), list(write), windows)


def run(answer, read, update, write, windows):
    """Give the answer lists of its own: it may empty them."""
    return answer([*read], [*update], [*write], windows)


def reader(got, read):
    """Three numbers for each chunk, one list after another."""
    if isinstance(got, (int, float)):
        raise Wrong("total", got=f"{got:g}")
    rows = listed(got, "kind")
    if len(rows) != len(read):
        raise Wrong("count", got=len(rows), want=len(read))
    found = []
    for i, row in enumerate(rows):
        try:
            found.append(tuple(map(to_number, row_of(row, len(PARTS), "no_triple"))))
        except Wrong:
            raise Wrong("no_triple", chunk=i, got=shown(row)) from None
    return found


def place(got, want):
    """The first chunk, and the part of it, that is wrong."""
    return next(
        (i, k)
        for i in range(len(want))
        for k in range(3)
        if abs(got[i][k] - want[i][k]) > 1e-9 * max(1, want[i][k])
    )


def facts(got, want):
    i, k = place(got, want)
    return {
        "chunk": i, "part": PARTS[k], "got": f"{got[i][k]:g}", "want": f"{want[i][k]:g}",
        "seen": f"chunk {i} is {PARTS[k]} at {got[i][k]:g} s",
        "before": f"{want[i - 1][k]:g}" if i else "0",
    }  # fmt: skip


def durations(got, read, update, write):
    """The answer has how long each part takes, not when it is done."""
    return got == list(zip(read, update, write, strict=True))


def backwards(*given):
    return [row[::-1] for row in finish_times(*given)]


def begins(read, update, write, windows):
    done = finish_times(read, update, write, windows)
    return [(a - r, b - u, c - w) for (a, b, c), r, u, w in
            zip(done, read, update, write, strict=True)]  # fmt: skip


EXERCISE = Answer(
    finish_times,
    run=run,
    read=reader,
    # One chunk; windows for all; each of the three as the slowest; then too few windows.
    cases=[
        case("1 chunk of 3, 5 and 2 s", [3], [5], [2], 1),
        case("2 chunks, slow reads", [4, 4], [1, 1], [2, 2], 2),
        case("2 chunks, slow updates", [1, 1], [6, 6], [2, 2], 2),
        case("2 chunks, slow writes", [1, 2], [1, 2], [7, 5], 2),
        case("2 chunks", [3, 3], [2, 2], [4, 4], 1),
        case("5 chunks", [2, 3, 2, 3, 2], [3, 2, 5, 2, 3], [4, 1, 3, 4, 2], 2),
        case("6 chunks", [2, 3, 1, 1, 2, 2], [3, 2, 5, 2, 3, 1], [4, 7, 3, 4, 2, 6], 3),
    ],
    mistakes=[
        ("not_added", {"+ read[i]": "", "+ update[i]": "", "+ write[i]": ""}),
        ("begins", begins),
        ("serial", {"max(before[0], free)": "before[2]"}),
        ("no_windows", {"max(before[0], free)": "before[0]"}),
        ("all_readers", {"max(before[0], free)": "free"}),
        ("all_readers", {BEFORE: "done[i - windows] if i >= windows else (0, 0, 0)"}),
        ("newest_window", {FREE: "done[i - 1][2] if i >= windows else 0"}),
        ("order", backwards),
        ("all_updaters", {"max(before[1], is_read)": "is_read"}),
        ("all_writers", {"max(before[2], is_updated)": "is_updated"}),
        ("not_read_yet", {"max(before[1], is_read)": "before[1]"}),
        ("not_updated_yet", {"max(before[2], is_updated)": "before[2]"}),
        ("free_when_updated", {"done[i - windows][2]": "done[i - windows][1]"}),
        ("one_window_more", {FREE: "done[i - windows - 1][2] if i > windows else 0"}),
        ("one_window_less", {FREE: "done[i - windows + 1][2] if i >= windows - 1 and i else 0"}),
        ("last_window", {FREE: "done[i % windows][2] if i >= windows else 0"}),
        ("sum_for_max", {"max(before[0], free)": "(before[0] + free)"}),
        ("waits_for_write", {"max(before[1], is_read)": "max(before[2], is_read)"}),
        ("reader_waits", {"max(before[0], free)": "max(before[1], free)"}),
        Mistake("durations", {"done.append((is_read, is_updated, is_written))":
                              "done.append((read[i], update[i], write[i]))"},
                when=durations),
    ],
    other="unrecognised",
    facts=facts,
    passed=lambda got, want: Passed(
        (("6 chunks with 3 windows end at", got[-1][-1][2], want[-1][-1][2], "s"),)
    ),
)  # fmt: skip
