"""What the two halves of exercise 7.4 share: the α–β cost of an all-reduce, checked by physics.

With β = 0 a time counts messages, with α = 0 it counts bytes. No ranks are needed.
"""

from dtlib.learn.alike import alike
from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import number, words
from dtlib.learn.verdicts import Passed

SIZE = 48_000_000  # bytes; 3, 4 and 64 divide it
ALPHA, BETA = 10e-6, 1e-10  # 10 µs a message, 10 GB/s


def run(answer, S, N, alpha, *betas):
    """Seconds, with one β or with two."""
    return [number(answer(S, N, alpha, beta)) for beta in betas]


def judge(got, want):
    """Of two β only whether the time grows with them."""
    return got == sorted(got) if len(got) > 1 else alike(got, want)


def facts(got, want, N):
    """How far off a single time is."""
    times = got[0] / (want[0] or 1)
    way = "too much" if times > 1 else "too little"
    return {"n": N, "right": words(want), "times": words(times), "way": way}


def falls(got):
    """A time that falls with a larger β."""
    fast, *slow = got
    return bool(slow) and {"fast": f"{fast:.3g}", "slow": f"{slow[0]:.3g}"}


def cases(ranks, messages):
    """Alone, with β doubled, then messages, bytes and both for several numbers of ranks."""
    told = f"S = {SIZE:,} bytes"
    yield f"N = 1, {told}", (SIZE, 1, ALPHA, BETA), "alone"
    yield "N = 4, α = 0, β doubled", (SIZE, 4, 0.0, BETA, 2 * BETA)
    for n in ranks:
        yield f"N = {n}, β = 0", (SIZE, n, 1.0, 0.0), messages
        yield f"N = {n}, α = 0, {told}", (SIZE, n, 0.0, BETA), "bytes"
        yield f"N = {n}", (SIZE, n, ALPHA, BETA)
    for size, what in ((4e3, "4 kB"), (4e8, "400 MB")):
        yield f"{what} on 64 ranks", (size, 64, ALPHA, BETA)


def passed(got, want):
    """The last two cases."""
    both = zip(("4 kB", "400 MB"), got[-2:], want[-2:], strict=True)
    rows = (
        (f"{what} on 64 ranks", *(round(t[0] * 1e3, 3) for t in ts), "ms") for what, *ts in both
    )
    return Passed(tuple(rows), "α = 10 µs, β = 1/(10 GB/s).")


def exercise(solution, ranks, messages, mistakes):
    """An exercise on a time; `messages` is the key for a wrong number of them."""
    return Answer(
        solution,
        run=run,
        judge=judge,
        cases=list(cases(ranks, messages)),
        mistakes=[
            *mistakes,
            Mistake("divides", {"* beta": "/ beta"}, when=falls),
            ("bits", {"* beta": "* 8 * beta"}),
            ("bits", {"* beta": "/ 8 * beta"}),
        ],
        other="together",
        facts=facts,
        passed=passed,
    )
