"""Exercise 10.3: other text for a line of each patient, proven on three and on four ranks.

A patient is run with the cure on ranks of its own, and what every rank returns is compared with
what the course's cure gives. A program that still waits is ended after three seconds.
"""

import contextlib
from typing import Any

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import shown
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Wrong
from dtlib.ranks.launcher import run_ranks

from ..ward import LOUD, SECONDS, SILENT, on_rank, outcomes, program, treated

RANKS = (3, 4)
KNOWN: dict[tuple[str, str], tuple[Any, ...]] = {}  # outcomes by patient and text

cure = solution("cure", globals())


def run(answer, patient):
    """What each rank returns, or what it was doing, on three ranks and on four."""
    text = treated(patient, read(answer(patient), patient))
    if (patient, text) not in KNOWN:
        try_all(answer)
    return list(results(patient, text))


def try_all(answer):
    """Run the cures of all patients in one launch, as long as none of them stops a rank."""
    texts = {}
    for name in (*LOUD, *SILENT):
        with contextlib.suppress(Exception):  # said in this patient's own case
            texts[name] = treated(name, read(answer(name), name))
    found = [in_turn(texts, n) for n in RANKS]
    if all(found):
        for name, text in texts.items():
            KNOWN[name, text] = tuple(tuple(ranks[name]) for ranks in found)


def in_turn(texts, n):
    """What each rank returned for each program, by patient; nothing if a rank stopped."""
    ended = run_ranks(all_on_rank, (texts,), ranks=n, timeout=SECONDS)
    if any(one.status != "ok" for one in ended):
        return {}
    return {name: summary(name, [one.value[name] for one in ended]) for name in texts}


def all_on_rank(texts):
    return {name: on_rank(name, text) for name, text in texts.items()}


def read(value, patient):
    """The lines of an answer and their new text."""
    if value is None:
        raise Wrong("none")
    lines = len(program(patient).splitlines())
    if not isinstance(value, dict) or not value:
        raise Wrong("form", got=shown(value))
    for number, text in value.items():
        if type(number) is not int or not isinstance(text, str):
            raise Wrong("form", got=shown(value))
        if not 1 <= number <= lines:
            raise Wrong("no_line", line=number, lines=lines)
    text = treated(patient, value)
    if text == program(patient):
        raise Wrong("untouched", who=patient)
    try:
        compile(text, f"{patient}.py", "exec")
    except SyntaxError as error:
        raise Wrong("syntax", why=error.msg, line=error.lineno) from None
    if any("return " in text and patient != "p04" for text in value.values()):
        raise Wrong("symptom", text=shown("; ".join(value.values())))
    return value


def results(patient, text):
    """Outcomes on three ranks and on four; the same text is run once in a process's life."""
    if (patient, text) not in KNOWN:
        KNOWN[patient, text] = tuple(
            tuple(summary(patient, [value(one) for one in outcomes(patient, text, ranks=n)]))
            for n in RANKS
        )
    return KNOWN[patient, text]


def value(outcome):
    """What a rank returned, or a word for how it stopped."""
    if outcome.status == "ok":
        return outcome.value
    return "error" if outcome.status == "error" and not outcome.peer_gone else "waits"


def summary(patient, returned):
    """What each rank returned; where draws may be any, only whether they differ."""
    found = [flat(one) for one in returned]
    if any(isinstance(one, str) for one in found):
        return found
    if patient == "p07":
        return [float(len(set(found)))]
    if patient == "p08":
        orders_differ = all(len(set(firsts)) > 1 for firsts in found)
        nothing_twice = all(len(set(epoch)) == len(epoch) for epoch in zip(*found, strict=True))
        return [float(orders_differ), float(nothing_twice)]
    return found


def flat(returned):
    if isinstance(returned, str):
        return returned
    numbers: list[float] = []
    for one in returned.values():
        numbers += one if isinstance(one, list) else [float(one)]
    return tuple(round(number, 6) for number in numbers)


def stopped(got):
    """Whether some rank still waits, on any number of ranks."""
    return any("waits" in ranks for ranks in got)


def raised(got):
    return any("error" in ranks for ranks in got)


def three_only(got, want):
    """Right on three ranks and wrong on four."""
    return got[0] == want[0] and got[1] != want[1]


def instead(name, lines):
    """The course's cures, but for one patient."""
    return lambda patient: lines if patient == name else cure(patient)


WRONG = {
    "p02_broadcast": ("p02", {14: "dist.broadcast(best, src=n - 1)"}),
    "p02_own": ("p02", {12: "pass", 14: "pass"}),
    "p03_drops": ("p03", {8: "mine = samples[rank::n][: len(samples) // n]"}),
    "p03_local": ("p03", {12: "pass"}),
    "p03_repeats": ("p03", {8: "mine = torch.cat([samples, samples[:1]])[rank::n]"}),
    "p04_both": ("p04", {14: "return self.left(self.body(x)) + self.right(self.body(x))"}),
    "p06_many": ("p06", {20: "save(Path(place[0]), 3 + rank)"}),
    "p06_none": ("p06", {20: "pass"}),
    "p07_same": ("p07", {6: "generator = torch.Generator().manual_seed(8)"}),
    "p07_two": ("p07", {6: "generator = torch.Generator().manual_seed(7 + (rank > 0))"}),
    "p08_constant": ("p08", {7: "sampler.set_epoch(1)\nfirsts = {}"}),
    "p09_count": ("p09", {12: "count = torch.tensor(10)"}),
    "p09_drop": ("p09", {8: "sampler = DistributedSampler(range(10), n, rank, shuffle=False,"
                            " drop_last=True)"}),
    "p10_two": ("p10", {12: "w -= 0.3 * gradient / 2"}),
    "p10_alone": ("p10", {11: "pass"}),
    "p10_twice": ("p10", {12: "w -= 0.3 * gradient / n**2"}),
    "p11_n": ("p11", {10: "loss = losses.sum() / n"}),
    "p11_sum": ("p11", {10: "loss = losses.sum()"}),
    "p11_mean": ("p11", {10: "loss = losses.mean()"}),
    "p12_sum": ("p12", {11: "mean = norm.running_mean\ndist.all_reduce(mean)"}),
    "p12_rank_0": ("p12", {11: "mean = norm.running_mean\ndist.broadcast(mean, src=0)"}),
    "p13_none": ("p13", {13: "if False:"}),
    "p13_rank": ("p13", {13: "if rank == 0:"}),
    "p14_after": ("p14", {11: "loss.backward()\noptimizer.zero_grad()"}),
    "p14_rate": ("p14", {8: "optimizer = torch.optim.SGD([w], lr=0.1)"}),
    "p15_never": ("p15", {14: "pass"}),
    "p15_rank": ("p15", {13: "for _ in range(rank == 0):"}),
    "p16_limit": ("p16", {14: "gradient /= gradient.norm().clamp(min=SCALE)"}),
    "p16_scaled": ("p16", {12: "pass"}),
    "p17_zero": ("p17", {14: "w += 0.5 * gradient / n"}),
    "p17_stop": ("p17", {8: "for step in range(2):"}),
}  # fmt: skip

EXERCISE = Answer(
    cure,
    cases=[(f"patient {name}", (name,)) for name in (*LOUD, *SILENT)],
    run=run,
    mistakes=[
        *((key, instead(*lines)) for key, lines in WRONG.items()),
        Mistake("literal", instead("p10", {12: "w -= 0.3 * gradient / 3"}), when=three_only),
        Mistake("waits", when=stopped),
        Mistake("raises", when=raised),
    ],
    facts=lambda patient: {"who": patient},
)
