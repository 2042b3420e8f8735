"""Exercise 10.3: other text for lines of each patient, proven on two to five ranks.

A patient is run with the cure, with the numbers that the notebook shows and with others. What the
ranks report must be what they report with the course's cure; `proof` has what must be true beside
that. A program that still waits is ended after three seconds.
"""

import ast
import contextlib
import functools
from dataclasses import replace

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import shown
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Wrong

from ..trial import Program, trials
from ..ward import LOUD, SILENT, program, treated
from . import proof

KNOWN: dict[Program, proof.Proof] = {}  # what a trial proves, by patient and text

cure = solution("cure", globals())


def run(answer, patient):
    """What the trial of a cure proves."""
    lines = read(answer(patient), patient)
    text = treated(patient, lines)
    if (patient, text) not in KNOWN:
        learn_all([*texts(answer), *known_texts(patient, text)])
    found = KNOWN[patient, text]
    if found.stopped:
        lines_now = by_old_lines(patient, lines, found.stopped["lines"])
        return replace(found, stopped={**found.stopped, "lines": lines_now})
    return found


def texts(answer):
    """The programs that an answer makes of all patients, as far as it does."""
    for name in (*LOUD, *SILENT):
        with contextlib.suppress(Exception):  # said in this patient's own case
            yield name, treated(name, read(answer(name), name))


def known_texts(patient, text):
    """All known mistakes, if this is one of them: in one launch, once in a process's life."""
    known = [(name, treated(name, lines)) for name, lines in PROGRAMS]
    return known if (patient, text) in known else []


def learn_all(programs):
    """Run programs, of which some are known already, in one launch."""
    new = list(dict.fromkeys(one for one in programs if one not in KNOWN))
    for one, trial in trials(new).items():
        KNOWN[one] = proof.proof(one, trial)


def read(value, patient):
    """The lines of an answer and their new text."""
    if value is None:
        raise Wrong("none")
    old = program(patient).splitlines()
    if not isinstance(value, dict) or not value:
        raise Wrong("form", got=shown(value))
    for number, text in value.items():
        if type(number) is not int or not isinstance(text, str):
            raise Wrong("form", got=shown(value))
        if not 1 <= number <= len(old):
            raise Wrong("no_line", line=number, lines=len(old))
    text = treated(patient, value)
    try:
        tree = shape(text)
    except SyntaxError as error:
        raise Wrong("syntax", why=error.msg, line=error.lineno) from None
    if tree == shape(program(patient)):
        raise Wrong("untouched", who=patient)
    if text.splitlines()[-1] != old[-1]:
        mine = "; ".join(filter(None, value.get(len(old), "").splitlines()))
        mine = mine if len(mine) < 60 else f"{mine[:60]}…"
        raise Wrong("last_line", got=mine, line=len(old), old=old[-1].strip())
    return value


@functools.cache
def shape(text):
    """What a program does, without its comments and blanks."""
    compile(text, "a patient", "exec")  # finds more than the parser does
    return ast.dump(ast.parse(text))


def by_old_lines(patient, lines, places):
    """The lines at which ranks stopped, by the numbers of the program as it was."""
    old = [
        number
        for number in range(1, len(program(patient).splitlines()) + 1)
        for _ in range(max(1, len(lines.get(number, "").splitlines())))
    ]
    return {rank: line and old[line - 1] for rank, line in places.items()}


def kind_of_stop(end):
    """The key of the sentence for a program that stopped."""
    error, message = end["error"], end["message"]
    if "Address already in use" in message:
        return "p05_all"
    if end["share"] > 1:  # ranks that write one path
        return "p06_race"
    if error in ("waits", "TooLong", "Killed"):
        return {"waits": "still_waits", "TooLong": "busy", "Killed": "killed"}[error]
    if error in ("NameError", "UnboundLocalError"):
        return "no_name"
    if error == "TypeError" and "unexpected keyword" in message:
        return "keyword"
    if "SyncBatchNorm expected" in message:
        return "needs_gpu"
    if "NoneType" in message and ".grad" in end["texts"][end["rank"]]:
        return "no_gradient"
    return "unreduced" if "Expected to have finished reduction" in message else "raises"


def halt(key):
    """A mistake that stops a rank, recognised by how it stopped."""

    def when(got, patient):
        end = got.stopped
        if end is None or kind_of_stop(end) != key:
            return False
        line, text = end["lines"][end["rank"]], end["texts"][end["rank"]]
        where = [f"rank {r} in line {end['lines'][r]}, `{end['texts'][r]}`" for r in end["ranks"]]
        return {
            "who": patient, "n": end["n"], "all": proof.ranks_in_words(end["ranks"]),
            "line": line, "text": text, "error": end["error"], "message": end["message"],
            "where": "; ".join(where),
            "given": proof.shown_given(patient, end["rank"], end["n"], end["case"]),
        }  # fmt: skip

    return Mistake(key, when=when)


def mixed(got, patient):
    """Ranks called different collectives, and gloo let them."""
    return got.odd and {"who": patient, **got.odd}


def by_chance(got, patient):
    return bool(got.chance) and {
        "who": patient,
        "all": proof.ranks_in_words(got.chance),
    }


def nobody_talks(got, want):
    return want.talks and not got.talks


def one_port(patient, got):
    """More than one rank asks for the port."""
    return patient == "p05" and any(asks > 1 and not other for asks, other in got.reports.values())


def own_ports(patient, got):
    return patient == "p05" and any(other for _, other in got.reports.values())


def many_write(patient, got):
    return patient == "p06" and any(one[0] > 1 for one in got.reports.values())


def by_size(got, want):
    """Right on some numbers of ranks, and wrong on others."""
    right, wrong = proof.cured(got, want)
    return bool(right and wrong) and {
        "right": proof.listed(right),
        "wrong": proof.listed(wrong),
    }


def by_case(got, want, patient):
    """Right with the numbers that the notebook shows, and wrong with others."""
    bad = proof.differences(got, want)
    return bool(bad) and (3, 0) not in bad and first(got, want, patient)


def first(got, want, patient):
    """The first case that is wrong, for a sentence, and a rank that shows it."""
    n, case = next(iter(proof.differences(got, want)), (3, 0))
    mine, right = (one.reports.get((n, case)) for one in (got, want))
    rank = 0
    if isinstance(mine, list) and isinstance(right, list) and len(mine) == len(right) == n:
        rank = next((r for r in range(n) if not proof.alike(mine[r], right[r], proof.SAME)), 0)
    report = got.raw.get((n, case), ["nothing"] * n)[rank]
    return {
        "who": patient, "n": n, "rank": rank, "mine": proof.report_in_words(report),
        "given": proof.shown_given(patient, rank, n, case),
    }  # fmt: skip


def instead(name, lines):
    """The course's cures, but for one patient."""
    return lambda patient: lines if patient == name else cure(patient)


WRONG = {
    "p02_broadcast": ("p02", {14: "dist.broadcast(best, src=n - 1)"}),
    "p02_own": ("p02", {12: "pass", 14: "pass"}),
    "p03_drops": ("p03", {7: "mine = samples[rank::n][: len(samples) // n]"}),
    "p03_local": ("p03", {11: "pass"}),
    "p03_repeats": ("p03", {7: "mine = torch.cat([samples, samples[:1]])[rank::n]"}),
    "p04_both": ("p04", {14: "return self.left(self.body(x)) + self.right(self.body(x))"}),
    "p05_none": ("p05", {9: "pass"}),
    "p06_many": ("p06", {20: "save(Path(place[0]), step + rank)"}),
    "p06_none": ("p06", {20: "pass"}),
    "p06_own": ("p06", {19: "pass"}),
    "p07_same": ("p07", {6: "generator = torch.Generator().manual_seed(seed + 1)"}),
    "p07_two": ("p07", {6: "generator = torch.Generator().manual_seed(seed + (rank > 0))"}),
    "p08_constant": ("p08", {7: "sampler.set_epoch(1)\norders = {}"}),
    "p08_rank": ("p08", {8: "for epoch in range(3):\n    sampler.set_epoch(epoch + rank)"}),
    "p08_inside": ("p08", {9: "own = list(sampler)\n"
                              "orders[epoch] = own[epoch:] + own[:epoch]"}),
    "p09_count": ("p09", {12: "count = torch.tensor(len(right))"}),
    "p09_drop": ("p09", {8: "sampler = DistributedSampler(right, n, rank, shuffle=False,"
                            " drop_last=True)"}),
    "p10_two": ("p10", {12: "w -= 0.3 * gradient / 2"}),
    "p10_alone": ("p10", {11: "pass"}),
    "p10_twice": ("p10", {12: "w -= 0.3 * gradient / n**2"}),
    "p11_n": ("p11", {9: "loss = losses.sum() / n"}),
    "p11_sum": ("p11", {9: "loss = losses.sum()"}),
    "p11_mean": ("p11", {9: "loss = losses.mean()"}),
    "p12_sum": ("p12", {10: "mean = norm.running_mean\ndist.all_reduce(mean)"}),
    "p12_rank_0": ("p12", {10: "mean = norm.running_mean\ndist.broadcast(mean, src=0)"}),
    "p13_none": ("p13", {12: "if False:"}),
    "p13_rank": ("p13", {12: "if rank == 0:"}),
    "p14_after": ("p14", {11: "loss.backward()\noptimizer.zero_grad()"}),
    "p14_rate": ("p14", {8: "optimizer = torch.optim.SGD([w], lr=0.1)"}),
    "p15_never": ("p15", {14: "pass"}),
    "p15_rank": ("p15", {13: "for _ in range(rank == 0):"}),
    "p16_limit": ("p16", {12: "gradient /= gradient.norm().clamp(min=scale)"}),
    "p16_scaled": ("p16", {10: "pass"}),
    "p16_off": ("p16", {6: "scale = 1.0\ngradient = exact.to(torch.half)"}),
    "p16_early": ("p16", {6: "gradient = exact.to(torch.half)"}),
    "p17_zero": ("p17", {12: "w += 0.5 * gradient / n"}),
    "p17_stop": ("p17", {8: "for x in batches[:2]:"}),
}  # fmt: skip
# Programs that do what they did before; p07 and p08 have a sentence for that among the above.
AS_BEFORE = [(name, {1: f"{program(name).splitlines()[0]}\nimport math"}) for name in SILENT[2:]]
LITERAL = ("p10", {12: "w -= 0.3 * gradient / 3"})
DATA = (
    "p09",
    {10: "hits, count = torch.tensor(3), torch.tensor(10)", 11: "dist.barrier()", 12: "pass"},
)
PROGRAMS = [*WRONG.values(), *AS_BEFORE, LITERAL, DATA]
STOPS = (
    "p05_all", "p06_race", "no_name",
    "keyword", "needs_gpu", "no_gradient", "unreduced", "raises", "killed", "busy", "still_waits"
)  # fmt: skip

EXERCISE = Answer(
    cure,
    cases=[(f"patient {name}", (name,)) for name in (*LOUD, *SILENT)],
    run=run,
    same=proof.SAME,
    mistakes=[
        *((key, instead(*lines)) for key, lines in WRONG.items()),
        *(("untouched", instead(*lines)) for lines in AS_BEFORE),
        *map(halt, STOPS),
        Mistake("mixed", when=mixed),
        Mistake("p05_own", when=own_ports),
        Mistake("p05_all", when=one_port),
        Mistake("p06_race", when=many_write),
        Mistake("alone", when=nobody_talks),
        Mistake("chance", when=by_chance),
        Mistake("literal", instead(*LITERAL), when=by_size),
        Mistake("data", instead(*DATA), when=by_case),
    ],
    facts=first,
)  # fmt: skip
