"""Exercise 18.2: an AdamW step whose state is read and written through a small window.

Three steps are taken, and a mistake is recognised by what it leaves: state, weights, and the log
of reads and writes. A wrong start or a missing write shows in the numbers; a chunk that is moved
twice, or too many at once, shows in the log alone.
"""

from dataclasses import dataclass, field

import torch

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import told_apart
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from .. import stores
from ..stores import KINDS, TooWide, adamw  # noqa: F401 (the solution uses the last)

STEPS = 3
WORDS = {
    "master": "A master weight", "first": "A first moment", "second": "A second moment",
    "weights": "A bf16 weight",
}  # fmt: skip
# words of the solution
STEP = "adamw(master, gradient[start:stop], first, second, step)"
STOP = "stop = min(start + window, len(gradient))"
NEW, LAST = "weights[start:stop] = master", 'host.write("second", start, second)'
EARLY = f"{NEW}\n        {STEP}"

streamed_step = solution("streamed_step", globals())


@dataclass
class Outcome:
    """What a few steps leave: state and weights, bytes moved, and most elements in the window."""

    state: dict[str, torch.Tensor]
    weights: torch.Tensor
    moved: dict[str, int]
    most: int
    unwritten: dict[str, int] = field(default_factory=dict)
    past: int = 0  # how often the state was taken without `read` and `write`


class Host(stores.Host):
    """A host that refuses what lies behind its end, and counts how often `state` is taken."""

    past = 0

    def read(self, kind, start, stop):
        self._inside("read", kind, start, stop)
        return super().read(kind, start, stop)

    def write(self, kind, start, values):
        self._inside("wrote", kind, start, start + len(values))
        super().write(kind, start, values)

    def _inside(self, verb, kind, start, stop):
        has = len(self._state.get(kind, ()))
        if stop > has > 0 and stop - start <= self.window:
            raise Wrong("behind_end", verb=verb, start=start, stop=stop, has=has)

    @property
    def state(self):
        self.past += 1
        return self._state


def case(elements, window):
    return f"{elements} elements, a window of {window}", (elements, window)


def run(answer, elements, window):
    """Take the steps."""
    dice = torch.Generator().manual_seed(7)
    weights = torch.randn(elements, generator=dice).bfloat16()
    host = Host(weights, window)
    for number in range(1, STEPS + 1):
        gradient = torch.randn(elements, generator=dice).bfloat16()
        given = gradient.clone()
        try:
            answer(host, gradient, weights, window, number)
        except TooWide as error:
            raise Wrong("too_wide", said=str(error)) from None
        except (RuntimeError, ValueError) as error:
            if "must match the size" in str(error) or "broadcast" in str(error):
                raise Wrong("lengths", said=str(error)) from None
            raise
        if not torch.equal(gradient, given):
            raise Wrong("gradient_changed")
        if number == 1 and not host.calls:
            raise Wrong("untouched")
    moved = {verb: host.moved(verb) for verb in ("read", "write")}
    most, unwritten = in_flight(host.calls)
    past = host.past
    return Outcome(host.state, weights, moved, most, unwritten, past)


def in_flight(calls):
    """The most elements of a kind that were read and not yet written; and what is left at the end.

    Elements that are written without being read first do not count against it.
    """
    open_: dict[str, set[int]] = {kind: set() for kind in KINDS}
    most = 0
    for call in calls:
        span = range(call.start, call.stop)
        if call.verb == "read":
            open_[call.kind].update(span)
        else:
            open_[call.kind].difference_update(span)
        most = max(most, len(open_[call.kind]))
    return most, {kind: len(left) for kind, left in open_.items()}


def numbers(outcome):
    """All numbers of an outcome in one tensor."""
    return torch.cat(
        [*(outcome.state[kind] for kind in KINDS), outcome.weights.float()]
    ).nan_to_num(1e30)


def same(a, b):
    return torch.equal(numbers(a), numbers(b)) and a.moved == b.moved and a.most == b.most


def judge(got, want, window):
    """Numbers first, then how they were moved."""
    if not torch.equal(numbers(got), numbers(want)):
        return False
    if got.past:
        return Wrong("around")
    for verb in ("read", "write"):
        if got.moved[verb] != want.moved[verb]:
            key = f"{verb}_more" if got.moved[verb] > want.moved[verb] else "kept"
            return Wrong(key, verb=verb, got=got.moved[verb], want=want.moved[verb])
    if got.most > window:
        return Wrong("in_flight", most=got.most, window=window)
    return True


def differs(got, want, kind):
    """How many elements of a kind, or of the weights, are wrong."""
    mine = got.weights if kind == "weights" else got.state[kind]
    right = want.weights if kind == "weights" else want.state[kind]
    return int((mine != right).sum())


def facts(got, want):
    """Where the first wrong element is."""
    for kind in (*KINDS, "weights"):
        if count := differs(got, want, kind):
            mine = got.weights if kind == "weights" else got.state[kind]
            right = want.weights if kind == "weights" else want.state[kind]
            place = int((mine != right).nonzero()[0])
            values = told_apart(float(mine[place]), float(right[place]))
            return {
                "which": WORDS[kind], "count": count, "place": place, "seen": f"{kind}[{place}]",
                "got": values[0], "want": values[1],
            }  # fmt: skip
    return {"most": got.most}


def nearly(got, want):
    """Right up to the rounding of fp32: the update is another program's."""
    pairs = [(got.state[kind], want.state[kind]) for kind in KINDS]
    rounded = torch.allclose(got.weights.float(), want.weights.float(), rtol=0.01)
    close = all(torch.allclose(*pair, rtol=1e-5, atol=1e-7) for pair in pairs)
    return rounded and close and not all(torch.equal(*pair) for pair in pairs)


def stale(*kinds):
    """Recognises state that was read and not written back in the end, and is wrong."""

    def when(got, want):
        left = [kind for kind, count in got.unwritten.items() if count]
        return left == list(kinds) and {"left": " and ".join(left)}

    return when


def passed(got):
    last = got[-1]
    n = len(last.weights)
    return Passed(
        (
            ("read, a parameter and step", last.moved["read"] / n / STEPS, 12, "bytes"),
            ("written, a parameter and step", last.moved["write"] / n / STEPS, 12, "bytes"),
            ("most elements of a kind in the window", last.most, 32, ""),
        ),
        "State and weights are bit for bit those of torch's AdamW.",
    )


EXERCISE = Answer(
    streamed_step,
    run=run,
    same=same,
    judge=judge,
    # One chunk; two whole ones; a shorter last one; many.
    cases=[case(4, 4), case(8, 4), case(10, 4), case(3, 8), case(200, 32)],
    mistakes=[
        ("step_by_chunk", {"second, step)": "second, step + start // window)"}),
        Mistake("step_from_0", {"second, step)": "second, step - 1)"},
                when=lambda error: error == "ZeroDivisionError"),
        ("step_always_1", {"second, step)": "second, 1)"}),
        ("first_gradient", {"gradient[start:stop]": "gradient[: stop - start]"}),
        ("written_to_start", {'write("master", start': 'write("master", 0'}),
        ("moments_to_start", {'write("first", start': 'write("first", 0',
                              'write("second", start': 'write("second", 0'}),
        ("swapped", {'write("first", start, first)': 'write("first", start, second)',
                     'write("second", start, second)': 'write("second", start, first)'}),
        ("swapped_in", {"first, second, step)": "second, first, step)"}),
        ("swapped_in", {'first = host.read("first"': 'first = host.read("second"',
                        'second = host.read("second", start': 'second = host.read("first", start'}),
        ("one_chunk", {NEW: f"{NEW}\n        return"}),
        ("too_early", {STEP: "", NEW: EARLY}),
        ("before_update", {STEP: EARLY, f"{LAST}\n        {NEW}": LAST}),
        ("weights_to_start", {"weights[start:stop] = master": "weights[: stop - start] = master"}),
        ("no_weights", {"weights[start:stop] = master": ""}),
        ("no_weights", {"weights[start:stop] = master": "weights = master"}),
        ("no_moments", {'host.write("first", start, first)': "",
                        'host.write("second", start, second)': ""}),
        Mistake("not_written", {'host.write("master", start, master)': ""},
                when=stale("master")),
        ("not_written", {'host.write("second", start, second)': ""}),
        ("not_written", {'host.write("first", start, first)': ""}),
        ("last_missing", {STOP: "stop = start + window\n        if stop > len(gradient): break"}),
        ("last_element", {"start + window, len(gradient))": "start + window, len(gradient) - 1)"}),
        ("one_short", {"start + window, len(gradient))": "start + window - 1, len(gradient))"}),
        ("master_as_weights", {'master = host.read("master", start, stop)':
                               "master = weights[start:stop].float()"}),
        ("rounded_master", {"weights[start:stop] = master": "",
                            STEP: f"{STEP}\n        {NEW}",
                            'write("master", start, master)':
                            'write("master", start, weights[start:stop])'}),
        ("step_from_2", {"second, step)": "second, step + 1)"}),
        ("order", {"adamw(master, gradient[start:stop], first, second, step)":
                   "adamw(master, first, second, gradient[start:stop].float(), step)"}),
        Mistake("not_written", when=lambda got: any(got.unwritten.values())),
        Mistake("nearly", when=nearly),
    ],
    other="unrecognised",
    facts=facts,
    passed=passed,
)  # fmt: skip
