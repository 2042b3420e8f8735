"""Exercise 6.1: all that a run needs to continue with the same bits.

What an answer returns is written only when the run has gone on, as an asynchronous save does, and
is read back with `weights_only`. Another run, with another seed, then loads it.
"""

import copy  # noqa: F401 (the solution uses it)
import io

import torch

from dtlib.errors import counted
from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import told_apart
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from ..trainer import PARTS, Run, load

state_of = solution("state_of", globals())
COPY = "copy.deepcopy(saved)"  # words of the solution
# what `load`, and a run that it put together, may raise
CANNOT = KeyError, TypeError, ValueError, RuntimeError, AttributeError


def run(answer, stopped, total):
    """Losses of the resumed run, and of the one that went on."""
    first = Run(total)
    first.train(stopped)
    saved = answer(first)
    if saved is None:
        raise Wrong("none")
    if not isinstance(saved, dict):
        raise Wrong("kind", got=type(saved).__name__)
    went_on = first.train(total)
    try:
        saved = written_and_read(saved)
    except Exception:
        raise Wrong("object", got=", ".join(map(str, filter(is_object(saved), saved)))) from None
    try:
        resumed = load(Run(total, seed=3), saved).train(total)
    except CANNOT as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())[:80]
        raise Wrong("not_loaded", why=why, part=not_loaded(total, saved)) from None
    return resumed, went_on


def written_and_read(saved):
    """What a file of it holds, for a reader who trusts nobody."""
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def is_object(saved):
    """Tells whether an entry is more than tensors and plain values."""

    def told(name):
        try:
            written_and_read({name: saved[name]})
        except Exception:
            return True
        return False

    return told


def not_loaded(total, saved):
    """The name of the part with which alone a run cannot be loaded, or take a step."""
    for part in saved:
        try:
            alone = load(Run(total, seed=3), {part: saved[part]})
            alone.train(alone.step + 1)
        except CANNOT:
            return part
    return "one of the parts"


def facts(got, want):
    resumed, right = got[0], want[0]
    apart = [k for k, (a, b) in enumerate(zip(resumed, right, strict=False)) if a != b]
    first = apart[0] if apart else max(min(len(resumed), len(right)) - 1, 0)
    mine, its = told_apart(resumed[first] if resumed else "none", right[first])
    return {
        "steps": counted(len(resumed), "step"), "right_steps": len(right), "first": first + 1,
        "got": mine, "want": its,
    }  # fmt: skip


def without(part):
    """The state without one of its parts."""
    return lambda run: {k: v for k, v in state_of(run).items() if k != part}


def with_alias(*parts):
    """The state with some parts that still change while the run goes on."""
    return lambda run: state_of(run) | {part: getattr(run, part).state_dict() for part in parts}


def later(run):
    saved = state_of(run)
    return saved | {"step": saved["step"] + 1}


def drawn_before(run):
    torch.rand(1)
    return state_of(run)


def from_the_seed(run):
    keep = torch.get_rng_state()
    torch.manual_seed(0)
    saved = state_of(run)
    torch.set_rng_state(keep)
    return saved


def rounded_to(dtype):
    """The state with the weights in a format of 16 bits."""

    def state(run):
        saved = state_of(run)
        return saved | {"model": {k: v.to(dtype) for k, v in saved["model"].items()}}

    return state


def next_epoch(run):
    saved = state_of(run)
    sampler = saved["sampler"]
    return saved | {"sampler": sampler | {"epoch": sampler["epoch"] + 1, "position": 0}}


EXERCISE = Answer(
    state_of,
    other="apart",
    run=run,
    same=0.0,
    cases=[
        ("a run of 8 steps, stopped after 4", (4, 8)),
        ("a run of 24 steps, stopped after 13, in its second epoch", (13, 24)),
    ],
    mistakes=[
        *((f"no_{part}", without(part)) for part in PARTS),
        ("all_alias", {COPY: "saved"}),
        ("all_alias", {COPY: "dict(saved)"}),
        ("alias_model", with_alias("model")),
        ("alias_optimizer", with_alias("optimizer")),
        ("all_alias", with_alias("model", "optimizer")),
        ("later", later),
        ("from_the_seed", from_the_seed),
        ("rounded", rounded_to(torch.bfloat16)),
        ("rounded", rounded_to(torch.float16)),
        ("next_epoch", next_epoch),
        Mistake("drawn_before", drawn_before, when=lambda got, want: got[1] != want[1]),
        Mistake("other_count", lambda run: state_of(run) | {"step": 17},
                when=lambda got: len(got[0]) != len(got[1])),
    ],
    facts=facts,
    passed=lambda got: Passed(
        (("losses equal to those of the run that went on", len(got[1][0]), 11, ""),),
        "The same bits, although the other run began with other weights and another order.",
    ),
)  # fmt: skip
